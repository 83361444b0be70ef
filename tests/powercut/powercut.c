/* Power cuts under the whole stack: the library and LMDB on a real file system on a
 * loop device, whose disk records what reaches it; then, many times over, the disk as a
 * cut would have left it is mounted, and held against what had been acknowledged. */
#include "tests/powercut/runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct wanted wanted = {.n_states = 5000, .seed = 1, .per_run = 100};

static double now(void)
{
    struct timespec s;
    clock_gettime(CLOCK_MONOTONIC, &s);
    return (double)s.tv_sec + (double)s.tv_nsec / 1e9;
}

static unsigned long long ull(uint64_t n)
{
    return n;
}

static bool judge(const struct tally *t, double seconds)
{
    const char *name = t->fs->name;
    uint64_t bad = t->n_unmountable + t->n_damaged;
    printf("%s: %llu runs (%llu after a cut) of %llu writes and %llu flushes; writes "
           "were in doubt in "
           "%llu states, a writer went on in %llu; %llu keys asked for; %.0f s\n",
           name, ull(t->n_runs), ull(t->n_continued), ull(t->n_entries - t->n_flushes),
           ull(t->n_flushes), ull(t->n_in_doubt), ull(t->n_went_on), ull(t->n_keys),
           seconds);
    printf("%s: what nobody had synced was gone in %llu of %llu cases\n", name,
           ull(t->n_unsynced_lost), ull(t->n_unsynced));
    printf("%s: %llu distinct states, %llu that it could not mount, %llu that it found "
           "damaged, %llu lost\n",
           name, ull(t->images.n), ull(t->n_unmountable), ull(t->n_damaged),
           ull(t->n_lost));
    if (t->n_unsynced_lost == 0)
        printf("%s: FAILED: this disk drops nothing\n", name);
    if (bad * 100 >= t->states.n)
        printf("%s: FAILED: too many that the file system does not bring back\n", name);
    return t->n_lost == 0 && t->n_unsynced_lost > 0 && bad * 100 < t->states.n;
}

static bool run_fs(const struct host_fs *fs, const char *dir)
{
    struct tally t = {.fs = fs};
    struct start fresh = {.generation = 0}, from = {.generation = 0}, next;
    double began = now();
    snprintf(t.dir, sizeof t.dir, "%s", dir);
    snprintf(t.mount, sizeof t.mount, "%s/mount", dir);
    t.finding = memory_shared(sizeof *t.finding);
    host_mkfs(fs, dir, &fresh.made);
    while (t.images.n < wanted.n_states) {
        run_and_cut(&t, from.made.bytes ? &from : &fresh, &next);
        start_end(&from);
        from = next;
        if (isatty(2))
            fprintf(stderr, "%s: %zu states, %.0f s\n", fs->name, t.images.n,
                    now() - began);
    }
    start_end(&from);
    start_end(&fresh);
    free(t.images.slot);
    free(t.states.slot);
    return judge(&t, now() - began);
}

static int run(const char *dir)
{
    char path[HOST_PATH_BYTES + 8];
    bool ok = true, any = false;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(path, sizeof path, "%s/fuse", dir);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/mount", dir);
    mkdir(path, 0700);
    for (unsigned i = 0; i < host_n_file_systems; i++) {
        const struct host_fs *fs = &host_file_systems[i];
        if (wanted.fs && strcmp(wanted.fs, fs->name) != 0)
            continue;
        any = true;
        ok = run_fs(fs, dir) && ok;
    }
    if (!any)
        host_fail("no such file system: %s", wanted.fs);
    return ok ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct known_option known[] = {{"fs", .text = &wanted.fs},
                                         {"states", .number = &wanted.n_states},
                                         {"seed", .number = &wanted.seed},
                                         {"per-run", .number = &wanted.per_run},
                                         {0}};
    return options_read(argc, argv, known) ? host_run(run) : 2;
}
