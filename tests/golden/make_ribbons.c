/* Writes the golden ribbons (SPEC.md 19), each with its list of answers (answers.h):
 * one that is small, one of several stages, and one with a page that has rotted. */
#define GOLDEN_WITHOUT_STORE
#include "tests/golden/write_answers.h"

static void make(const char *name, unsigned n_keys, double error)
{
    make_sealed(name, n_keys,
                (struct tamis_builder_options){.error = error, .kind = TAMIS_RIBBON});
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    make_in(argv[1]);
    make("small.tamis", 300, 0.01);
    write_answers("small.tamis", 0, 300);
    make("rotten.tamis", 12000, 0.001);
    rot("rotten.tamis", 2);
    write_answers("rotten.tamis", 0, 12000);
    return 0;
}
