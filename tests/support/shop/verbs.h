/* How verbs of scenes are made: words of a step, files by their names, and verbs that
 * list themselves. See shop.h. */
#ifndef TAMIS_TESTS_SHOP_VERBS_H
#define TAMIS_TESTS_SHOP_VERBS_H

#include "shop.h"

enum { SHOP_WORDS = 20 };

struct step {
    int n;
    const char *word[SHOP_WORDS], *rest; /* rest: all words but the first */
    char text[2][400];
};

#define WANT(good, ...)                                                                \
    do {                                                                               \
        if (!(good))                                                                   \
            fail_msg(__VA_ARGS__);                                                     \
    } while (0)

/* ---- words ---- */

uint64_t number_of(const char *word);
enum tamis_reason reason_named(const char *word);
/* The value of "rank=3" for "rank"; NULL: there is none. */
const char *option_of(const struct step *s, const char *word);
uint64_t number_option(const struct step *s, const char *word);
const char *name_at(const struct step *s, int i);
uint64_t number_at(const struct step *s, int i);

/* ---- the store and its files ---- */

void call_file(const char *name, const char *path);
/* The files of all segments of few letters, as of now. */
void know_files(void);
/* In a file of its own, or as the one column of a pack. */
int put_built(struct tamis_edit *e, struct tamis_builder *b, bool packed);
void note_count(const char *word, uint64_t value);

/* ---- verbs, which list themselves ---- */

typedef int change_fn(struct tamis_edit *e, const struct step *s);

/* By the edit that steps belong to, or by one of its own. */
int change(change_fn *fn, const struct step *s);

enum { VERBS_MAX = 160 };
extern struct verb {
    const char *word;
    bool closed; /* it wants the files of a store that nobody has open */
    void (*act)(const struct step *s);
    int (*call)(const struct step *s); /* these return what the library did */
    change_fn *change;
} verbs[VERBS_MAX];
extern size_t n_verbs;

#define LIST_VERB(word, ...)                                                           \
    __attribute__((constructor)) static void list_verb_##word(void)                    \
    {                                                                                  \
        if (n_verbs == VERBS_MAX)                                                      \
            abort();                                                                   \
        verbs[n_verbs++] = (struct verb){#word, __VA_ARGS__};                          \
    }
#define VERB(word, type, args, ...)                                                    \
    static type verb_##word args;                                                      \
    LIST_VERB(word, __VA_ARGS__)                                                       \
    static type verb_##word args
#define MUST(word) VERB(word, void, (const struct step *s), .act = verb_##word)
#define HARM(word)                                                                     \
    VERB(word, void, (const struct step *s), .closed = true, .act = verb_##word)
#define CALL(word) VERB(word, int, (const struct step *s), .call = verb_##word)
#define HARM_CALL(word)                                                                \
    VERB(word, int, (const struct step *s), .closed = true, .call = verb_##word)
#define CHANGE(word)                                                                   \
    VERB(word, int, (struct tamis_edit * e, const struct step *s),                     \
         .change = verb_##word)
#define MUST_TOO(word, other) LIST_VERB(word, .act = verb_##other)
#define CALL_TOO(word, other) LIST_VERB(word, .call = verb_##other)

#endif
