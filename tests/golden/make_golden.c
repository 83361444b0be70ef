/* Writes the golden files as this library writes them now. Everything is fixed
 * (identifiers, seeds, times, keys), so that a test can hold the bytes against those of
 * the files in tests/golden. Beside each FILE stands FILE.answers (answers.h). */
#include <dirent.h>

#include "tests/golden/write_answers.h"

static struct tamis_builder *build(double error, unsigned n)
{
    struct tamis_diag diag;
    struct tamis_domain domain;
    struct tamis_builder *b;
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &domain,
                                      .error = error,
                                      .identity.name = "golden",
                                      .identity.name_bytes = 6,
                                      .identity.binding = "SST-000042",
                                      .identity.binding_bytes = 10,
                                      .watermark = 4711};
    check(tamis_builder_create(&o, &b, &diag), &diag);
    build_keys(b, 0, n);
    return b;
}

static void make_built(const char *name, double error, unsigned n)
{
    struct tamis_diag diag;
    struct tamis_builder *b = build(error, n);
    unlink(at(name));
    check(tamis_builder_finish(b, at(name), NULL, NULL, &diag), &diag);
    tamis_builder_free(b);
    write_answers(name, 0, n);
}

/* Three pages of something else, the filter, a page of something else. */
static void make_embedded(const char *name)
{
    struct tamis_diag diag;
    char other[3 * 4096];
    uint64_t n_bytes;
    struct tamis_builder *b = build(0.001, 2000);
    int fd = open(at(name), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    memset(other, 'x', sizeof other);
    if (pwrite(fd, other, sizeof other, 0) != (ssize_t)sizeof other)
        exit(1);
    check(tamis_builder_finish(b, NULL, INTO(.fd = fd, .offset = sizeof other),
                               &n_bytes, &diag),
          &diag);
    if (pwrite(fd, other, 4096, (off_t)(sizeof other + n_bytes)) != 4096)
        exit(1);
    close(fd);
    tamis_builder_free(b);
    write_answers(name, sizeof other, 2000);
}

static void copy_file(const char *from, const char *to)
{
    uint8_t page[4096];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    for (ssize_t n; (n = read(in, page, sizeof page)) > 0;)
        if (write(out, page, (size_t)n) != n)
            exit(1);
    close(in);
    close(out);
}

/* A growing filter of n keys, two thirds of them committed; kept as its writer left
 * it running (unclean), closed (clean), or sealed. */
static void make_growing(const char *stem, unsigned n, int sealed)
{
    struct tamis_diag diag;
    struct tamis_domain domain;
    struct tamis_writer *w;
    char name[100];
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_writer_options o = {.size = sizeof o,
                                     .domain = &domain,
                                     .growth = {.error = 0.45,
                                                .factor = 1.5,
                                                .tightening = 0.5,
                                                .first_capacity = 2000},
                                     .identity.name = "golden",
                                     .identity.name_bytes = 6};
    snprintf(name, sizeof name, "%s.tamis", stem);
    unlink(at(name));
    check(tamis_writer_create(at(name), &o, &w, &diag), &diag);
    write_keys(w, 0, n * 2 / 3 + 1);
    check(tamis_writer_commit(w, n * 2 / 3 + 1, &diag), &diag);
    write_keys(w, n * 2 / 3 + 1, n - n * 2 / 3 - 1);
    if (sealed) {
        check(tamis_writer_seal(w, n, NULL, &diag), &diag);
    } else {
        char unclean[100];
        snprintf(unclean, sizeof unclean, "%s-unclean.tamis", stem);
        copy_file(at(name), at(unclean));
        write_answers(unclean, 0, n);
        check(tamis_writer_commit(w, n, &diag), &diag);
    }
    check(tamis_writer_close(w, NULL), &diag);
    write_answers(name, 0, n);
}

static void make_handmade(unsigned number)
{
    uint8_t *bytes;
    size_t n_bytes;
    unsigned n_keys;
    const char *name = handmade_file(number, &bytes, &n_bytes, &n_keys);
    write_file(at(name), bytes, n_bytes);
    free(bytes);
    write_answers(name, 0, n_keys);
}

#ifndef GOLDEN_WITHOUT_STORE
static void make_store(const char *name)
{
    struct tamis_diag diag;
    struct tamis_edit *edit;
    struct tamis_builder *b;
    struct tamis_writer *w;
    struct tamis_segment_options so = {
        .size = sizeof so, .binding = "B1", .binding_bytes = 2, .rank = 3};
    struct tamis_store *store = new_store(name);
    check(tamis_edit_begin(store, NULL, &edit, &diag), &diag);
    check(tamis_edit_builder(edit, "sealed", 6, 0, &so, &b, &diag), &diag);
    build_keys(b, 0, 500);
    check(tamis_edit_put(edit, b, NULL, &diag), &diag);
    tamis_builder_free(b);
    check(tamis_edit_put_bare(edit, "bare", 4, NULL, &diag), &diag);
    check(tamis_edit_put_growing(edit, "growing", 7, NULL, NULL, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
    check(tamis_store_writer(store, "growing", 7, NULL, &w, &diag), &diag);
    write_keys(w, 400, 500);
    check(tamis_writer_commit(w, 900, &diag), &diag);
    check(tamis_writer_close(w, NULL), &diag);
    tamis_store_close(store);
    write_store_answers(name, 1200);
}
#endif

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_golden DIRECTORY\n");
        return 2;
    }
    make_in(argv[1]);
    make_built("empty.tamis", 0.01, 0);
    make_built("built.tamis", 0.1, 6500);
    make_built("two-lanes.tamis", 0.0001, 3000);
    make_embedded("embedded.bin");
    make_growing("growing-1", 1500, 0);
    make_growing("growing-2", 4500, 0);
    make_growing("growing-5", 20000, 0);
    make_growing("sealed-growing", 9000, 1);
    for (unsigned i = 0; i < N_HANDMADE; i++)
        make_handmade(i);
#ifndef GOLDEN_WITHOUT_STORE
    make_store("store");
#endif
    return 0;
}
