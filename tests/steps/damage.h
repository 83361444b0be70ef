/* Words that hurt a store or a file, while no step is under way. */
#ifndef TAMIS_TESTS_STEPS_DAMAGE_H
#define TAMIS_TESTS_STEPS_DAMAGE_H

#include "tests/steps/steps.h"

/* NAME: an object. KIND: what becomes of the catalog, or of a directory. */
int damage_file(struct player *p, const struct step *s);
int damage_twice(struct player *p, const struct step *s);
int damage_catalog(struct player *p, const struct step *s);
int damage_litter(struct player *p, const struct step *s);
int damage_in_way(struct player *p, const struct step *s);
int damage_keep(struct player *p, const struct step *s);

#define DAMAGE_WORDS                                                                   \
    {"rot", 1, 1, false, false, damage_file},        /* a bit of its first page */     \
        {"zero", 1, 0, false, false, damage_file},   /* that page */                   \
        {"sector", 1, 0, false, false, damage_file}, /* one with bits in it */         \
        {"lose", 1, 0, false, false, damage_file},   /* the file */                    \
        {"spoil", 1, 0, false, false, damage_file},  /* its record */                  \
        {"twice", 1, 2, false, false, damage_twice}, /* FROM N: an older file too */   \
        {"stray", 1, 2, false, false, damage_twice}, /* the same, of no segment */     \
        {"catalog",     1, 0, false, false,                                            \
         damage_catalog}, /* gone, zeros, noise, cut, meta, short; or nofilters */     \
        {"litter",     0, 1, false, false,                                             \
         damage_litter}, /* unfinished files; aside: in                                \
                            the way in quarantine/ */                                  \
        {"aside", 1, 0, false, false, damage_litter},                                  \
        {"inway", 0, 0, false, false, damage_in_way},                                  \
    {                                                                                  \
        "keep", 0, 0, false, false, damage_keep                                        \
    }

#endif
