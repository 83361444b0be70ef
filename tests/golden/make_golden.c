/* Writes the golden files of format 1.0 as this library writes them now. Everything is
 * fixed (identifiers, seeds, times, keys), so that a test can hold the bytes against
 * those of the frozen files. A later library may write others (and then that test goes,
 * and new files with new names come beside the old); it has to read these for ever.
 * Beside each FILE stands FILE.answers (answers.h). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/golden/write_answers.h"

static void write_answers_at(const char *name, uint64_t offset, unsigned n_present)
{
    struct tamis_diag diag;
    struct tamis_filter *f;
    int fd = open(at(name), O_RDONLY | O_CLOEXEC);
    check(tamis_filter_open_fd(fd, offset, 0, NULL, &f, &diag), &diag);
    close(fd);
    write_answers(f, name, n_present);
}

static struct tamis_builder *build(double error, unsigned n)
{
    struct tamis_diag diag;
    struct tamis_domain domain;
    struct tamis_builder *b;
    char key[64];
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
    for (unsigned i = 0; i < n; i++)
        tamis_builder_add_key(b, key, golden_key(key, "key", i));
    return b;
}

static void make_built(const char *name, double error, unsigned n)
{
    struct tamis_diag diag;
    struct tamis_builder *b = build(error, n);
    unlink(at(name));
    check(tamis_builder_finish_file(b, at(name), &diag), &diag);
    tamis_builder_free(b);
    write_answers_at(name, 0, n);
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
    check(tamis_builder_finish_fd(b, fd, sizeof other, &n_bytes, &diag), &diag);
    if (pwrite(fd, other, 4096, (off_t)(sizeof other + n_bytes)) != 4096)
        exit(1);
    close(fd);
    tamis_builder_free(b);
    write_answers_at(name, sizeof other, 2000);
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
    char key[64], name[100];
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
    for (unsigned i = 0; i < n; i++) {
        tamis_writer_add_key(w, key, golden_key(key, "key", i));
        if (i == n * 2 / 3)
            check(tamis_writer_commit(w, i + 1, &diag), &diag);
    }
    if (sealed) {
        check(tamis_writer_seal(w, n, NULL, &diag), &diag);
    } else {
        char unclean[100];
        snprintf(unclean, sizeof unclean, "%s-unclean.tamis", stem);
        copy_file(at(name), at(unclean));
        write_answers_at(unclean, 0, n);
        check(tamis_writer_commit(w, n, &diag), &diag);
    }
    check(tamis_writer_close(w), &diag);
    write_answers_at(name, 0, n);
}

static void make_handmade(unsigned number)
{
    uint8_t *bytes;
    size_t n_bytes;
    unsigned n_keys;
    const char *name = handmade_file(number, &bytes, &n_bytes, &n_keys);
    int fd = open(at(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (io_write(fd, bytes, n_bytes, 0) != 0)
        exit(1);
    close(fd);
    free(bytes);
    write_answers_at(name, 0, n_keys);
}

#ifndef GOLDEN_WITHOUT_STORE
static void make_store(const char *name)
{
    struct tamis_diag diag;
    struct tamis_domain domain;
    struct tamis_store *store;
    struct tamis_edit *edit;
    struct tamis_builder *b;
    struct tamis_writer *w;
    char key[64], path[4500];
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_store_options o = {.size = sizeof o, .domain = &domain};
    struct tamis_segment_options so = {
        .size = sizeof so, .binding = "B1", .binding_bytes = 2, .rank = 3};
    snprintf(path, sizeof path, "rm -rf '%s'", at(name));
    if (system(path) != 0)
        exit(1);
    check(tamis_store_create(at(name), &o, &diag), &diag);
    check(tamis_store_open(at(name), &store, &diag), &diag);
    check(tamis_edit_begin(store, &edit, &diag), &diag);
    check(tamis_edit_builder(edit, "sealed", 6, 0, &so, &b, &diag), &diag);
    for (unsigned i = 0; i < 500; i++)
        tamis_builder_add_key(b, key, golden_key(key, "key", i));
    check(tamis_edit_put(edit, b, &diag), &diag);
    tamis_builder_free(b);
    check(tamis_edit_put_bare(edit, "bare", 4, NULL, &diag), &diag);
    check(tamis_edit_put_growing(edit, "growing", 7, NULL, NULL, &diag), &diag);
    check(tamis_edit_commit(edit, &diag), &diag);
    check(tamis_store_writer(store, "growing", 7, &w, &diag), &diag);
    for (unsigned i = 400; i < 900; i++)
        tamis_writer_add_key(w, key, golden_key(key, "key", i));
    check(tamis_writer_commit(w, 900, &diag), &diag);
    check(tamis_writer_close(w), &diag);
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
    make_growing("growing-settled", 20000, 0);
    make_growing("sealed-settled", 9000, 1);
    for (unsigned i = 0; i < N_HANDMADE; i++)
        make_handmade(i);
#ifndef GOLDEN_WITHOUT_STORE
    make_store("store");
#endif
    return 0;
}
