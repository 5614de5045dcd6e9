"""What is kept from commands by name, wherever it is: files that make other programs run code, and credentials."""

from __future__ import annotations

RUNS_CODE = (
    ".turnwright",
    ".mcp.json",
    # Read by shells.
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    # Run by continuous integration.
    ".github/workflows",
    ".github/actions",
    ".gitea/workflows",
    ".forgejo/workflows",
    ".gitlab-ci.yml",
    ".circleci",
    ".buildkite",
    ".travis.yml",
    ".drone.yml",
    ".woodpecker.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
)
"""Of a workspace, not writable, whether they exist or not."""

OF_GIT = ("hooks", "config", "config.worktree", "commondir", "modules")
"""Of a repository's own folder: what git runs, or where it is told what to run."""

CREDENTIALS = (
    ".ssh",
    ".aws",
    ".azure",
    ".config/gcloud",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/doctl",
    ".config/sops",
    ".config/op",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".gnupg",
    ".kube",
    ".docker",
    ".config/containers",
    ".oci",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".pgpass",
    ".my.cnf",
    ".vault-token",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".claude",
    ".claude.json",
    ".codex",
    ".gemini",
    ".config/Code",
    ".bash_history",
    ".zsh_history",
    ".python_history",
)
"""Below the home folder, neither readable nor writable."""

OF_SYSTEM = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/ssl/private",
    "/etc/ssh",
    "/etc/sudoers",
)
"""What a root without any powers would still read as its owner."""
