"""Options that several commands share, and the settings they stand for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import get_args

from turnwright.cli.output import OUTPUTS
from turnwright.config.load import Flag, Loaded, load
from turnwright.schema.errors import UsageError
from turnwright.schema.sandbox import SandboxLevel
from turnwright.schema.settings import ENDPOINT


def add_config_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="a configuration over those of user and project")
    parser.add_argument("--cwd", metavar="DIR", help="the folder to work in (default: this one)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="NAME", help="provider/model, or a bare name with --base-url")
    parser.add_argument("--base-url", metavar="URL", help="an endpoint for this run alone; needs --model")
    parser.add_argument("--dialect", metavar="NAME", help="what the endpoint speaks (default: openai-chat)")
    parser.add_argument("--api-key-env", metavar="VARIABLE", help="the variable that holds its key (default: no key)")


def add_turn_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mode",
        metavar="NAME",
        default="",
        help="build, plan (looks and changes nothing), compact, or one of `modes`, in place of loop.sequence",
    )
    parser.add_argument("--max-steps", metavar="N", type=int, help="loop.limits.max_steps")
    parser.add_argument("--max-cost", metavar="USD", type=float, help="loop.limits.max_cost_usd")
    parser.add_argument("--max-tokens", metavar="N", type=int, help="loop.limits.max_tokens")
    parser.add_argument(
        "--autonomy",
        metavar="0-4",
        type=int,
        choices=range(5),
        help="permissions.autonomy: 0 looks, 4 does what no rule denies",
    )
    parser.add_argument("--no-input", action="store_true", help="never ask; what needs an answer is denied")
    add_ssh_option(parser)
    add_sandbox_options(parser)
    add_output_option(parser)


def add_ssh_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ssh", metavar="HOST:FOLDER", help="machine.ssh: work on another computer; `local` is this one"
    )


def add_sandbox_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sandbox", choices=get_args(SandboxLevel), help="machine.sandbox")
    parser.add_argument(
        "--require-sandbox", action="store_true", help="leave with 44 rather than run with less than all"
    )


def add_trust_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--require-trust", action="store_true", help="leave with 55 if the folder brings anything you have not trusted"
    )


def add_detach_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--detach", action="store_true", help="leave it running in the background, and say its id")


def add_set_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="assigned",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="any setting, for this conversation alone",
    )


def assigned_of(args: argparse.Namespace) -> dict[str, str]:
    assigned: dict[str, str] = {}
    for each in getattr(args, "assigned", ()):
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {each!r} is no KEY=VALUE.", remedy="Example: --set loop.limits.max_steps=20")
        assigned[key] = value
    return assigned


def add_output_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", choices=OUTPUTS, default="text", help="text, one JSON object, or one per event")


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for programs")


def count(word: str) -> int:
    """A number of things to be shown: at least one."""
    if (number := int(word)) < 1:
        raise ValueError(word)
    return number


def add_conversation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="ID", help="as sessions lists it, the beginning of it, or last")


def add_point(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("conversation", metavar="ID[:SEQ]", help="a conversation, or its beginning up to a fact")


def loaded_config(args: argparse.Namespace, workspace: Path) -> Loaded:
    """All layers, the flags of this command line among them."""
    file = Path(args.config).expanduser() if args.config else None
    loaded = load(workspace, file=file, flags=flags_of(args), assigned=assigned_of(args))
    if loaded.untrusted and not getattr(args, "trust_settled", False):
        from turnwright.cli.trusting import tell_untrusted

        tell_untrusted(loaded.untrusted, loaded.trust.folder)
    return loaded


def flags_of(args: argparse.Namespace) -> list[Flag]:
    """Settings from whichever of the shared options the command has."""
    flags = _model_flags(args) if hasattr(args, "base_url") else []
    if getattr(args, "max_steps", None) is not None:
        flags.append(Flag(path=("loop", "limits", "max_steps"), value=args.max_steps, flag="--max-steps"))
    if getattr(args, "max_cost", None) is not None:
        flags.append(Flag(path=("loop", "limits", "max_cost_usd"), value=args.max_cost, flag="--max-cost"))
    if getattr(args, "max_tokens", None) is not None:
        flags.append(Flag(path=("loop", "limits", "max_tokens"), value=args.max_tokens, flag="--max-tokens"))
    if getattr(args, "autonomy", None) is not None:
        flags.append(Flag(path=("permissions", "autonomy"), value=args.autonomy, flag="--autonomy"))
    if getattr(args, "ssh", None) is not None:
        flags.append(Flag(path=("machine", "ssh"), value=args.ssh, flag="--ssh"))
    if getattr(args, "sandbox", None) is not None:
        flags.append(Flag(path=("machine", "sandbox"), value=args.sandbox, flag="--sandbox"))
    if getattr(args, "require_sandbox", False):
        flags.append(Flag(path=("machine", "require_sandbox"), value=True, flag="--require-sandbox"))
    if getattr(args, "net", False):
        flags.append(Flag(path=("machine", "network"), value="open", flag="--net"))
    if getattr(args, "net_hosts", None) is not None:
        hosts = [host for host in args.net_hosts.split(",") if host]
        flags.append(Flag(path=("machine", "network"), value="hosts", flag="--net-hosts"))
        flags.append(Flag(path=("machine", "hosts"), value=hosts, flag="--net-hosts"))
    if getattr(args, "write", None):
        flags.append(Flag(path=("machine", "write"), value=args.write, flag="--write"))
    return flags


def _model_flags(args: argparse.Namespace) -> list[Flag]:
    """A one-off endpoint is a provider like any other, under a name of its own."""
    if not args.base_url:
        for option, value in (("--dialect", args.dialect), ("--api-key-env", args.api_key_env)):
            if value:
                raise UsageError(f"{option} is for the endpoint of --base-url.", remedy="Give --base-url too.")
        return [Flag(path=("model",), value=args.model, flag="--model")] if args.model else []
    if not args.model:
        raise UsageError("--base-url needs a model.", remedy="Give --model too.")
    flags = [
        Flag(path=("model",), value=f"{ENDPOINT}/{args.model}", flag="--model"),
        Flag(path=("providers", ENDPOINT, "base_url"), value=args.base_url, flag="--base-url"),
    ]
    if args.dialect:
        flags.append(Flag(path=("providers", ENDPOINT, "dialect"), value=args.dialect, flag="--dialect"))
    if args.api_key_env:
        flags.append(Flag(path=("providers", ENDPOINT, "api_key_env"), value=args.api_key_env, flag="--api-key-env"))
    return flags
