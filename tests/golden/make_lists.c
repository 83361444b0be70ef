/* Writes the golden lists (SPEC.md 18), each with its list of answers (answers.h):
 * whole hashes on several pages, cut ones, none, and a list with a page that has
 * rotted. */
#define GOLDEN_WITHOUT_STORE
#include "tests/golden/write_answers.h"

static void make(const char *name, unsigned n_keys, uint64_t hash_bits)
{
    make_sealed(name, n_keys, (struct tamis_builder_options){.list_bits = hash_bits});
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    make_in(argv[1]);
    make("whole.tamis", 3000, 64);
    write_answers("whole.tamis", 0, 3000);
    make("cut.tamis", 5000, 24);
    write_answers("cut.tamis", 0, 5000);
    make("none.tamis", 0, 64);
    write_answers("none.tamis", 0, 0);
    make("rotten.tamis", 3000, 64);
    rot("rotten.tamis", 2);
    write_answers("rotten.tamis", 0, 3000);
    return 0;
}
