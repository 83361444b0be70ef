# The memory of commands on a large store: ulimit -d, so not with sanitizers.
load ../common

# within KIB COMMAND...: with so much memory.
within() {
    (ulimit -d "$1" && "${@:2}" >/dev/null 2>&1)
}

# Without `plan --pack`: the library plans a pack in memory, of 1,048,576 segments at most.
@test "commands hold no entry for a packed segment" {
    mkdir lists
    for n in 20000 10; do
        rm -f lists/*
        seq "$n" | split -l 1 -a 4 - lists/
        tamis init "of$n"
        (cd lists && tamis build "../of$n" --each --pack -q *)
        [ "$n" = 10 ] || (cd lists && tamis init ../loose && tamis build ../loose --each -q a[a-c]*)
    done
    for c in "ls S --json" "stat S" "stat S --prometheus" "stat S --svg -" "probe S 5 --explain --json" \
        "probe S 5 --explain" "probe S 5 --min-watermark 1 --json" "plan S --bytes 1M"; do
        for ((max = 1024; max < 32768; max += 256)); do within $max tamis ${c/S/of10} && break; done
        within $((max + 1536)) tamis ${c/S/of20000} || { echo "$c: more than $max KiB"; return 1; }
    done
    # The list of loose ones takes memory, and so do 1,024 filters that stay open.
    for ((max = 1024; max < 32768; max += 256)); do within $max tamis ls loose && break; done
    within $((max + 5120)) tamis verify loose
}
