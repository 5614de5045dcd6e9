"""Layers, their order, and what is said about a mistake in any of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwright.config.explain import explain
from turnwright.config.folders import Folders, folders_of
from turnwright.config.layers import Place
from turnwright.config.load import Flag, Loaded, load
from turnwright.config.yaml_file import said_in_text
from turnwright.schema.errors import ConfigError
from turnwright.schema.limits import Limits
from turnwright.schema.settings import Settings


class Ground:
    """A home and a project, as a user has them."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.project = root / "project"
        (self.project / ".turnwright").mkdir(parents=True)
        self.home.mkdir()
        self.user_file = self.home / "config.yaml"
        self.project_file = self.project / ".turnwright" / "config.yaml"
        self.environ = {"TURNWRIGHT_HOME": str(self.home)}

    def load(self, *flags: Flag, file: Path | None = None, environ: dict[str, str] | None = None) -> Loaded:
        """By somebody who has trusted the project as it is."""
        return load(self.project, file=file, flags=flags, environ=self.environ | (environ or {}), trust_all=True)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def max_steps(value: object) -> Flag:
    return Flag(path=("loop", "limits", "max_steps"), value=value, flag="--max-steps")


def test_nothing_said_is_the_defaults(ground: Ground) -> None:
    loaded = ground.load()
    assert loaded.settings == Settings()
    assert loaded.files == ()


def test_each_layer_wins_over_the_one_before(ground: Ground, tmp_path: Path) -> None:
    steps = "loop: {limits: {max_steps: %d}}\n"
    given_file = tmp_path / "given.yaml"
    seen = []
    ground.user_file.write_text(steps % 1)
    seen.append(ground.load())
    ground.project_file.write_text(steps % 2)
    seen.append(ground.load())
    given_file.write_text(steps % 3)
    seen.append(ground.load(file=given_file))
    variable = {"TURNWRIGHT_LOOP__LIMITS__MAX_STEPS": "4"}
    seen.append(ground.load(file=given_file, environ=variable))
    seen.append(ground.load(max_steps(5), file=given_file, environ=variable))
    path = ("loop", "limits", "max_steps")
    assert [loaded.settings.loop.limits.max_steps for loaded in seen] == [1, 2, 3, 4, 5]
    assert [loaded.said[path].place for loaded in seen] == [
        Place(layer="user", where=f"{ground.user_file}:1"),
        Place(layer="project", where=f"{ground.project_file}:1"),
        Place(layer="file", where=f"{given_file}:1"),
        Place(layer="environment", where="TURNWRIGHT_LOOP__LIMITS__MAX_STEPS"),
        Place(layer="flag", where="--max-steps"),
    ]
    assert seen[-1].files == (ground.user_file, ground.project_file, given_file)


def test_layers_merge_value_by_value(ground: Ground) -> None:
    ground.user_file.write_text(
        "model: here/m\n"
        "providers:\n"
        "  default: here\n"
        "  here: {base_url: 'http://127.0.0.1:1/v1', headers: {X-A: '1', X-B: '1'}}\n"
        "catalogue:\n"
        "  models:\n"
        "    gpt-4.1: {price: {input: 2, output: 8.5}, window: 1000}\n"
        "tools: {include: [read, grep]}\n"
    )
    ground.project_file.write_text(
        "providers: {here: {headers: {X-B: '2'}, api_key_env: HERE}}\ncatalogue: {models: {gpt-4.1: {window: 2000}}}\n"
    )
    settings = ground.load().settings
    here = settings.providers.named["here"]
    assert (settings.model, settings.providers.default) == ("here/m", "here")
    assert (here.base_url, here.api_key_env, here.headers) == (
        "http://127.0.0.1:1/v1",
        "HERE",
        {"X-A": "1", "X-B": "2"},
    )
    model = settings.catalogue.models["gpt-4.1"]
    assert (model.price.input, model.price.output, model.price.cache_read, model.window) == (2.0, 8.5, None, 2000)
    assert settings.tools.include == ("read", "grep")


def test_null_switches_a_limit_off_again(ground: Ground) -> None:
    ground.user_file.write_text("loop: {limits: {turn_wall_s: 3600}}\n")
    ground.project_file.write_text("loop: {limits: {turn_wall_s: null, step_idle_s: ~}}\nproviders:\ntimers: {}\n")
    assert ground.load().settings.loop.limits == Limits(turn_wall_s=None, step_idle_s=None)


@pytest.mark.parametrize(
    ("variable", "value", "reached"),
    [
        ("TURNWRIGHT_MODEL", "a/b", lambda s: s.model == "a/b"),
        ("TURNWRIGHT_LOOP__LIMITS__MAX_COST_USD", "0.5", lambda s: s.loop.limits.max_cost_usd == 0.5),
        ("TURNWRIGHT_LOOP__LIMITS__STEP_IDLE_S", "null", lambda s: s.loop.limits.step_idle_s is None),
        ("TURNWRIGHT_LOOP__DISPATCH__EAGER", "true", lambda s: s.loop.dispatch.eager is True),
        ("TURNWRIGHT_TOOLS__INCLUDE", "read, grep", lambda s: s.tools.include == ("read", "grep")),
        (
            "TURNWRIGHT_PROVIDERS__LOCAL__BASE_URL",
            "http://h",
            lambda s: s.providers.named["local"].base_url == "http://h",
        ),
        ("TURNWRIGHT_CAPTURE", "off", lambda s: s.capture == "off"),
    ],
)
def test_variables(ground: Ground, variable: str, value: str, reached: object) -> None:
    assert callable(reached)
    assert reached(ground.load(environ={variable: value}).settings)


def test_the_words_of_yaml_1_2(ground: Ground) -> None:
    ground.user_file.write_text("capture: off\nmodel: 'null'\nproviders: {default: yes, no: {dialect: 007x}}\n")
    settings = ground.load().settings
    assert (settings.capture, settings.model, settings.providers.default) == ("off", "null", "yes")
    assert settings.providers.named["no"].dialect == "007x"


MISTAKES = [
    (
        "loop:\n  limits:\n    max_stepz: 3\n",
        ":3: loop.limits.max_stepz is not a setting. Did you mean loop.limits.max_steps?",
    ),
    ("modle: x\n", ":1: modle is not a setting. Did you mean model?"),
    ("zzz: {}\n", ":1: zzz is not a setting. Known here: capture, catalogue, completion, guards, "),
    ("a: 1\na: 2\n", ":2: a stands on line 1 already. Write plain keys and values."),
    ("model: x\nmodel: x\n", ":2: model stands on line 1 already."),
    (
        "providers: {p: {api_key: sk-0123456789abcdefABCDEF}}\n",
        "providers.p.api_key is not a setting. Did you mean providers.p.api_key_env?",
    ),
    (
        "loop: {limits: {max_steps: many}}\n",
        ":1: loop.limits.max_steps cannot be 'many': expected a whole number, got text.",
    ),
    ("\n\ntimers:\n  gap_s: -1\n", ":4: timers.gap_s cannot be '-1': expected a number > 0.0."),
    ("capture: never\n", ":1: capture cannot be 'never': it is one of failures, all, off."),
    ("model: [a]\n", ":1: model cannot be \"['a']\": expected text, got a list."),
    (
        "timers: 3\n",
        ":1: timers is a section, not a value. It has: connect_s, first_byte_s, gap_s, total_s.",
    ),
    ("providers: {p: 3}\n", ":1: providers.p is a section, not a value."),
    ("model: {name: x}\n", ":1: model.name is not a setting. model is a single value."),
    ("tools: {include: read}\n", ":1: tools.include cannot be 'read': expected a list or null, got text"),
    ("- a\n- b\n", ":1: the file must hold keys and values."),
    ("just words\n", ":1: the file must hold keys and values."),
    ("model: 'x\n", ": this is not YAML: "),
    ("model: x\n  bad: y\n", ":2: this is not YAML: mapping values are not allowed here."),
    ("a: &x 1\nb: *x\n", ":1: anchors and aliases are not read."),
    ("model: !!python/object:os.system x\n", ":1: the tag tag:yaml.org,2002:python/object:os.system is not read."),
    ("? [a, b]\n: c\n", ":1: a key of the file is not a word."),
    ("model: x\n---\nmodel: y\n", ":2: there is a second document."),
    ("model: [[{a: b}]]\n", ":1: model cannot be \"[[{'a': 'b'}]]\": expected text, got a list."),
    ("permissions: {rules: [{tool: bash, action: maybe}]}\n", ":1: permissions.rules cannot be "),
    ("permissions: {rules: [{tol: bash, action: ask}]}\n", "unknown field `tol`"),
    ("permissions: {autonomy: 5}\n", ":1: permissions.autonomy cannot be '5': expected a whole number <= 4."),
    ("model: " + "[" * 50 + "]" * 50, ":1: values are nested deeper than 20 levels."),
    ("loop: {limits: {max_steps: 0}}\n", "loop.limits.max_steps = 0 is impossible. Unlimited steps need "),
    ("loop: {limits: {max_tokens: .nan}}\n", "loop.limits.max_tokens cannot be 'nan'"),
    ("loop: {limits: {turn_wall_s: .inf}}\n", "loop.limits.turn_wall_s = inf is impossible."),
    ("providers: {p: {base_url: localhost}}\n", ":1: providers.p.base_url is not an address."),
    ("catalogue: {models: {m: {price: {input: 1}}}}\n", "catalogue.models.m.price has no output price."),
]


@pytest.mark.parametrize(("text", "said"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_place(ground: Ground, text: str, said: str) -> None:
    ground.user_file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        ground.load()
    assert said in str(caught.value)
    assert str(ground.user_file) in str(caught.value) or "catalogue" in said
    assert "0123456789abcdef" not in str(caught.value)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"TURNWRIGHT_MODLE": "x"}, "TURNWRIGHT_MODLE: modle is not a setting. Did you mean model?"),
        (
            {"TURNWRIGHT_LOOP__LIMITS__MAX_STEPS": "many"},
            "TURNWRIGHT_LOOP__LIMITS__MAX_STEPS: loop.limits.max_steps cannot be 'many': expected a whole number",
        ),
        ({"TURNWRIGHT_LOOP": "x"}, "TURNWRIGHT_LOOP: loop is a section, not a value."),
        ({"TURNWRIGHT_MODEL__": "x"}, "TURNWRIGHT_MODEL__: model. is not a setting. model is a single value."),
    ],
)
def test_a_mistake_in_a_variable(ground: Ground, environ: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ground.load(environ=environ)
    assert str(caught.value).startswith(said)


def test_variables_of_the_tests_are_not_settings(ground: Ground) -> None:
    assert ground.load(environ={"TURNWRIGHT_TEST_ANYTHING": "x"}).settings == Settings()


def test_an_impossible_limit_names_where_it_was_set(ground: Ground) -> None:
    with pytest.raises(ConfigError, match=r"loop.limits.max_steps in --max-steps"):
        ground.load(max_steps(-1))


def test_files_that_cannot_be_read(ground: Ground, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere.yaml does not exist. Check the name given to --config."):
        ground.load(file=tmp_path / "nowhere.yaml")
    ground.user_file.mkdir()
    with pytest.raises(ConfigError, match=r"config.yaml cannot be read: Is a directory."):
        ground.load()
    ground.user_file.rmdir()
    ground.user_file.write_bytes(b"model: a\nx: \xff\n")
    with pytest.raises(ConfigError, match=r"config.yaml:2: the file is not UTF-8"):
        ground.load()
    ground.user_file.write_bytes(b"#" * (1 << 21))
    with pytest.raises(ConfigError, match="larger than 1 MiB"):
        ground.load()
    ground.user_file.write_text("# only a comment\n")
    assert ground.load().settings == Settings()


def test_the_project_file_is_looked_for_up_to_the_repository(ground: Ground) -> None:
    ground.project_file.write_text("model: project\n")
    deep = ground.project / "a" / "b"
    deep.mkdir(parents=True)
    assert load(deep, environ=ground.environ, trust_all=True).settings.model == "project"
    (ground.project / "a" / ".git").mkdir()
    assert load(deep, environ=ground.environ, trust_all=True).settings.model == ""


def test_a_home_inside_the_project_is_read_once(ground: Ground) -> None:
    ground.project_file.write_text("model: mine\n")
    loaded = load(ground.project, environ={"TURNWRIGHT_HOME": str(ground.project / ".turnwright")})
    assert loaded.files == (ground.project_file,)
    assert loaded.said[("model",)].place.layer == "user"


def test_folders(tmp_path: Path) -> None:
    assert folders_of({"TURNWRIGHT_HOME": str(tmp_path), "XDG_DATA_HOME": "/x"}) == Folders(
        config=tmp_path, data=tmp_path / "data", state=tmp_path / "state", cache=tmp_path / "cache"
    )
    assert folders_of({"HOME": "/h", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "not/absolute"}) == Folders(
        config=Path("/h/.config/turnwright"),
        data=Path("/d/turnwright"),
        state=Path("/h/.local/state/turnwright"),
        cache=Path("/h/.cache/turnwright"),
    )


def test_explain_shows_every_value_and_hides_secrets(ground: Ground) -> None:
    ground.user_file.write_text(
        "providers:\n"
        "  p:\n"
        "    base_url: https://me:hunter2hunter2@host/v1\n"
        "    headers: {Authorization: Bearer 0123456789abcdef, X-Note: sk-0123456789abcdefABCDEF}\n"
    )
    rows = {row.key: row for row in explain(ground.load(max_steps(7)))}
    assert rows["providers.p.base_url"].value == "https://me:hun***er2@host/v1"
    assert rows["providers.p.headers.Authorization"].value == "Bearer 012***def"
    assert rows["providers.p.headers.X-Note"].value == "sk-***DEF"
    assert (rows["loop.limits.max_steps"].value, rows["loop.limits.max_steps"].where) == (7, "--max-steps")
    assert (rows["timers.gap_s"].layer, rows["timers.gap_s"].where) == ("default", "")
    assert set(rows) >= {"model", "capture", "loop.retry.preset", "tools.include", "logging.level"}


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        said = said_in_text(text, Path("config.yaml"), "user")
    except ConfigError as refused:
        assert str(refused).startswith("config.yaml")
    else:
        assert all(str(one.place).startswith("config.yaml:") for one in said)


@pytest.mark.parametrize("piece", ["[", "{a: ", "- ", "? ", "a:\n ", "'", "&a ", "!", "%", "|"])
def test_hostile_text_is_refused_in_time(piece: str) -> None:
    with pytest.raises(ConfigError):
        said_in_text(piece * 5000, Path("config.yaml"), "user")


def test_what_is_named_is_there_though_nothing_is_said_of_it(ground: Ground) -> None:
    ground.user_file.write_text("guards: {mine: {}}\nmodes: {talk: {}}\nproviders: {house: {}}\ntimers: {}\n")
    settings = ground.load().settings
    assert list(settings.guards.plugins) == ["mine"]
    assert list(settings.modes) == ["talk"]
    assert list(settings.providers.named) == ["house"]
