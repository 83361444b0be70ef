/* Writes the golden ribbons (SPEC.md 19), each with its list of answers (answers.h):
 * one that is small, one of several stages, and one with a page that has rotted. */
#include <sys/stat.h>

#define GOLDEN_WITHOUT_STORE
#include "tests/golden/write_answers.h"

static void build(const char *name, unsigned n_keys, double error)
{
    struct tamis_domain domain;
    struct tamis_builder *b;
    struct tamis_diag diag;
    tamis_domain_init(&domain, 1, SEED);
    struct tamis_builder_options o = {.size = sizeof o,
                                      .domain = &domain,
                                      .error = error,
                                      .identity = {.name = "golden", .name_bytes = 6},
                                      .watermark = 12,
                                      .kind = TAMIS_RIBBON};
    unlink(at(name));
    check(tamis_builder_create(&o, &b, &diag), &diag);
    build_keys(b, 0, n_keys);
    check(tamis_builder_finish_file(b, at(name), &diag), &diag);
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
    build("small.tamis", 300, 0.01);
    write_answers("small.tamis", 0, 300);
    build("rotten.tamis", 12000, 0.001);
    rot("rotten.tamis", 2);
    write_answers("rotten.tamis", 0, 12000);
    return 0;
}
