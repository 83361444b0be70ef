/* For tests of files that lose their name: a clock that stands still, looks
 * that can be met, and copies that take a name. */
#ifndef TAMIS_TESTS_MOVED_SUPPORT_H
#define TAMIS_TESTS_MOVED_SUPPORT_H

#include "filters.h"
#include "still_clock.h"

enum { BEFORE = 200, AFTER = 100 };

static uint64_t keys[BEFORE + AFTER];

SET_UP(test_dir_create, random_hashes(keys, BEFORE + AFTER))

/* ---- a look that can be met ---- */

static unsigned n_looks;
static int look_error;
static void (*in_the_look)(void);

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
    void (*now)(void) = in_the_look;
    bool ours = strstr(path, "catalog.lmdb") == NULL;
    n_looks += ours;
    if (ours) {
        in_the_look = NULL;
        if (now)
            now();
        errno = look_error;
    }
    return ours && look_error ? -1 : (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

/* ---- what is done to files ---- */

static UNUSED void replace(const char *path)
{
    file_copy(path, path_of("copy"));
    OK(rename(path_of("copy"), path));
}

static UNUSED void go_on_in(struct tamis_writer *w)
{
    add_hashes(w, keys + BEFORE, AFTER);
    OK(tamis_writer_commit(w, 2, NULL));
    OK(tamis_writer_close(w, NULL));
}

static UNUSED void make_at(const char *path)
{
    WRITER w = create_writer(path, 1e-6, 2, 1000);
    add_hashes(w, keys, BEFORE);
    OK(tamis_writer_commit(w, 1, NULL));
}

static UNUSED const char *make(void)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s", path_of("f"));
    unlink(path);
    make_at(path);
    return path;
}

/* Asks for the keys that came later in every way. */
static UNUSED void filter_must_say(struct tamis_filter *f, enum tamis_reason want)
{
    size_t absent = want == TAMIS_NO_REASON ? AFTER : 0;
    uint64_t tag = filter_domain(f).tag, bits[AFTER / 64 + 1];
    struct tamis_key k[AFTER];
    struct tamis_explanation told;
    enum tamis_reason why;
    errno = 77; /* it is the caller's, whatever a look finds */
    for (size_t i = 0; i < AFTER; i++) {
        k[i] = (struct tamis_key){.tag = tag, .hash = keys[BEFORE + i]};
        bool said = tamis_filter_probe(f, &k[i], &why) == TAMIS_ABSENT;
        IS(why, want);
        IS(said, absent != 0);
    }
    IS(tamis_filter_probe_batch(f, tag, keys + BEFORE, AFTER, bits, &why), absent);
    IS(why, want);
    IS(tamis_filter_explain(f, &k[0], &told), absent != 0);
    IS(told.reason, want);
    IS(count_absent(f, keys, BEFORE), 0);
    IS(errno, 77);
}

#endif
