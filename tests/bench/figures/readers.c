/* Sixteen processes with the same filter open: they share its pages, so that the sum of
 * what each takes is the file once and a little each. */
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 16 };

/* The child. On each byte that it is sent it answers with a number, so that all are as
 * far: when it is there; its share before the filter is open; when every page has been
 * asked; its share then. */
int reader_main(const char *path)
{
    char go;
    double pss = 0;
    if (read(0, &go, 1) != 1 || write(1, &pss, sizeof pss) != sizeof pss ||
        read(0, &go, 1) != 1)
        return 2;
    pss = memory_bytes("Pss:");
    if (write(1, &pss, sizeof pss) != sizeof pss || read(0, &go, 1) != 1)
        return 2;
    struct tamis_filter *filter = filter_open(path, TAMIS_CHECK_LAZY);
    struct tamis_stage_info stage;
    must(tamis_filter_stage(filter, 0, &stage), NULL, "stage");
    bench.domain = tamis_filter_domain(filter);
    size_t n = stage.n_blocks / BLOCKS_PER_PAGE, n_absent = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t step = UINT64_MAX / n;
        struct tamis_key key = tamis_key_of_hash(bench.domain.tag, i * step + step / 2);
        n_absent += tamis_filter_probe(filter, &key, NULL);
    }
    pss = (double)n_absent;
    if (write(1, &pss, sizeof pss) != sizeof pss || read(0, &go, 1) != 1)
        return 2;
    pss = memory_bytes("Pss:");
    if (write(1, &pss, sizeof pss) != sizeof pss || read(0, &go, 1) != 1)
        return 2;
    tamis_filter_close(filter);
    return 0;
}

struct reader {
    pid_t pid;
    int to, from;
};

static struct reader start(const char *path)
{
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0)
        give_up("no pipe");
    struct reader r = {.pid = fork(), .to = in[1], .from = out[0]};
    if (r.pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        execl("/proc/self/exe", bench.program, "--reader", path, (char *)NULL);
        _exit(2);
    }
    close(in[0]), close(out[1]);
    return r;
}

/* All are told to go on, then each answers: the sum. */
static double sum_of(struct reader *readers)
{
    double sum = 0;
    for (int i = 0; i < READERS; i++)
        if (write(readers[i].to, "", 1) != 1)
            give_up("a reader is gone");
    for (int i = 0; i < READERS; i++) {
        double value;
        if (read(readers[i].from, &value, sizeof value) != sizeof value)
            give_up("a reader says nothing");
        sum += value;
    }
    return sum;
}

void figures_readers(void)
{
    struct reader readers[READERS];
    struct stat st;
    const char *path = filter_file(bench.sizes.large, 0.01);
    if (stat(path, &st) != 0)
        give_up("%s is gone", path);
    for (int i = 0; i < READERS; i++)
        readers[i] = start(path);
    sum_of(readers);
    double before = sum_of(readers);
    sum_of(readers);
    double after = sum_of(readers), mib = 1 << 20;
    for (int i = 0; i < READERS; i++) {
        close(readers[i].to), close(readers[i].from);
        waitpid(readers[i].pid, NULL, 0);
    }
    figure("readers_pss", (after - before) / mib, (double)st.st_size / mib + READERS,
           "%d processes, file of %.1f MiB; with the rest of the processes %.1f MiB",
           READERS, (double)st.st_size / mib, after / mib);
}
