# Shared by the tests of what is installed. $B is the build directory, $CC and $CXX the
# compilers.
bats_require_minimum_version 1.5.0
top=$(realpath "$BATS_TEST_DIRNAME/../..")
B=${B:-$top/build}
export LC_ALL=C
# For this script, not for what it runs.
export -n B
unset MAKEFLAGS MFLAGS MAKELEVEL DESTDIR PREFIX prefix PKG_CONFIG_PATH LD_LIBRARY_PATH

# Installs the build with these variables; the name has a blank on purpose.
prefix="$BATS_FILE_TMPDIR/a prefix"
install_tamis() {
    make -s -C "$top" B="$B" install "$@"
}
uninstall_tamis() {
    make -s -C "$top" B="$B" uninstall "$@"
}

# The commands as the source has them: "init", "file show".
source_commands() {
    sed -n 's/^const struct command cmd_\([a-z_]*\) = {$/\1/p' "$top"/tools/{command,file}/*.c |
        sed 's/_/ /' | sort
}

version() {
    sed -n 's/^.define TAMIS_VERSION "\(.*\)"$/\1/p' "$top/lib/tamis.h"
}

fail() {
    echo "$*"
    return 1
}
