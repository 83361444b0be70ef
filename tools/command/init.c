/* tamis init: an empty store. */
#include "../input/input.h"
#include "../talk/talk.h"
#include "command.h"
#include "tamis.h"

static int run(int argc, char **argv)
{
    struct tamis_store_options opt = {.size = sizeof(opt)};
    struct tamis_diag diag = {0};
    struct tamis_domain domain;
    struct options o;
    int err = 0;

    parse_options(argc, argv, 1, 1, &o);
    opt.growth = o.growth;
    opt.for_packs = given(&o, OPT_FOR_PACKS);
    if (given(&o, OPT_SEED)) {
        err = tamis_domain_init(&domain, 1, o.seed);
        opt.domain = &domain;
    }
    if (err == 0)
        err = tamis_store_create(o.args[0], &opt, &diag);
    return err ? complain_error(err, &diag, o.args[0],
                                err == TAMIS_ERR_EXISTS ? "name a new directory" : NULL)
               : EXIT_DONE;
}

const struct command cmd_init = {
    .name = "init",
    .arguments = "STORE [--fpr P] [-s S] [-r R] [--n0 N] [--seed HEX]",
    .summary = "make an empty store",
    .about = "Makes the directory STORE, or uses an empty one. The numbers are the "
             "defaults of the filters that will be in it.\n",
    .options =
        {OPTION(FPR, "error of a filter, 1e-8..0.5 or with %; default: 0.01"),
         OPTION(
             FACTOR,
             "growing filters: a stage holds S times the last, 1.25..16; default: 1.9"),
         OPTION(TIGHTENING, "... at R times its error, 0.5..0.95; default: 0.85"),
         OPTION(FIRST,
                "... keys in the first stage, 1..2^32, k is 1000; default: 50000"),
         OPTION(FOR_PACKS,
                "sealed filters get sizes that 'tamis pack' lays side by side"),
         OPTION(SEED, "hash seed, 16 hex digits; default: random, so that nobody can "
                      "make keys collide")},
    .examples = "tamis init /var/lib/engine/filters\n"
                "tamis init store --fpr 0.1%\n",
    .run = run,
};
