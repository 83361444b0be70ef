/* For programs that write golden files: random numbers and a time that never differ,
 * the directory to write to, and its files, keys and stores. */
#ifndef TAMIS_TESTS_GOLDEN_MAKE_H
#define TAMIS_TESTS_GOLDEN_MAKE_H

#include "tests/golden/handmade.h"
#include "tests/support/internals.h"

static uint64_t random_state;

static void fixed_random(void *buf, size_t n)
{
    uint8_t *p = buf;
    while (n--) {
        random_state =
            random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
        *p++ = (uint8_t)(random_state >> 56);
    }
}

static uint64_t fixed_now(void)
{
    return UINT64_C(1789000000) * 1000000 + 123456;
}

static void check(int err, const struct tamis_diag *diag)
{
    if (err) {
        fprintf(stderr, "make_golden: %s: %s\n", diag->file, diag->what);
        exit(1);
    }
}

static char directory[4000];

static const char *at(const char *name)
{
    static char paths[4][4400];
    static unsigned next;
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", directory, name);
    return p;
}

static inline void make_in(const char *to)
{
    snprintf(directory, sizeof directory, "%s", to);
    io_calls.random = fixed_random;
    io_calls.now = fixed_now;
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || io_write(fd, bytes, n, 0) != 0)
        exit(1);
    close(fd);
}

static inline void build_keys(struct tamis_builder *b, unsigned first, unsigned n)
{
    char key[64];
    for (unsigned i = first; i < first + n; i++)
        tamis_builder_add_key(b, key, golden_key(key, "key", i));
}

static inline void write_keys(struct tamis_writer *w, unsigned first, unsigned n)
{
    char key[64];
    for (unsigned i = first; i < first + n; i++)
        tamis_writer_add_key(w, key, golden_key(key, "key", i));
}

/* A sealed filter of some kind, or a list. */
static inline void make_sealed(const char *name, unsigned n_keys,
                               struct tamis_builder_options o)
{
    struct tamis_domain domain;
    struct tamis_builder *b;
    struct tamis_diag diag;
    tamis_domain_init(&domain, 1, SEED);
    o.size = sizeof o;
    o.domain = &domain;
    o.identity.name = "golden";
    o.identity.name_bytes = 6;
    o.watermark = 12;
    unlink(at(name));
    check(tamis_builder_create(&o, &b, &diag), &diag);
    build_keys(b, 0, n_keys);
    check(
        tamis_builder_finish(b, at(name), INTO(.list = o.list_bits != 0), NULL, &diag),
        &diag);
    tamis_builder_free(b);
}

/* A page of zeros in the place of one. */
static inline void rot(const char *name, unsigned page)
{
    static const uint8_t zeros[PAGE_BYTES];
    int fd = open(at(name), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || io_write(fd, zeros, sizeof zeros, (uint64_t)page * PAGE_BYTES) != 0)
        exit(1);
    close(fd);
}

#ifndef GOLDEN_WITHOUT_STORE
/* A store without segments, in the place of one that is there. */
static inline struct tamis_store *new_store(const char *name)
{
    struct tamis_diag diag;
    struct tamis_domain domain;
    struct tamis_store *s;
    char command[4500];
    snprintf(command, sizeof command, "rm -rf '%s'", at(name));
    if (system(command) != 0)
        exit(1);
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_open_options o = {
        .size = sizeof o, .create = TAMIS_CREATE_NEW, .domain = &domain};
    check(tamis_store_open(at(name), &o, &s, &diag), &diag);
    return s;
}
#endif

#endif
