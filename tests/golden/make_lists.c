/* Writes the golden lists (SPEC.md 18), each with its list of answers (answers.h): whole
 * hashes on several pages, cut ones, none, and a list with a page that has rotted. */
#define GOLDEN_WITHOUT_STORE
#include "tests/golden/write_answers.h"

static void build(const char *name, unsigned n_keys, uint64_t hash_bits)
{
    struct tamis_domain domain;
    struct tamis_builder *b;
    struct tamis_diag diag;
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &domain,
                                      .identity = {.name = "golden", .name_bytes = 6},
                                      .watermark = 12,
                                      .list_bits = hash_bits};
    unlink(at(name));
    check(tamis_builder_create(&o, &b, &diag), &diag);
    build_keys(b, 0, n_keys);
    check(tamis_builder_finish_list(b, at(name), &diag), &diag);
    tamis_builder_free(b);
}

/* A page of zeros in the place of one. */
static void rot(const char *name, unsigned page)
{
    static const uint8_t zeros[PAGE_BYTES];
    int fd = open(at(name), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || io_write(fd, zeros, sizeof zeros, (uint64_t)page * PAGE_BYTES) != 0)
        exit(1);
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    make_in(argv[1]);
    build("whole.tamis", 3000, 64);
    write_answers("whole.tamis", 0, 3000);
    build("cut.tamis", 5000, 24);
    write_answers("cut.tamis", 0, 5000);
    build("none.tamis", 0, 64);
    write_answers("none.tamis", 0, 0);
    build("rotten.tamis", 3000, 64);
    rot("rotten.tamis", 2);
    write_answers("rotten.tamis", 0, 3000);
    return 0;
}
