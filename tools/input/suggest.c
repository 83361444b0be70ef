/* Suggests a known word for an unknown one: the fewest edits away, if they are few. */
#include "input.h"

enum { LONGEST = TAMIS_NAME_MAX };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Counts the insertions, deletions, changes and exchanges of neighbours that turn a
 * into b (optimal string alignment); `limit` if there are that many. */
static size_t distance(const char *a, size_t n_a, const char *b, size_t n_b,
                       size_t limit)
{
    size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    if ((n_a > n_b ? n_a - n_b : n_b - n_a) >= limit)
        return limit;
    for (size_t j = 0; j <= n_b; j++)
        last[j] = j;
    for (size_t i = 1; i <= n_a; i++) {
        size_t best = row[0] = i, *spare = before;
        for (size_t j = 1; j <= n_b; j++) {
            row[j] = least(last[j], row[j - 1]) + 1;
            row[j] = least(row[j], last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
            best = least(best, row[j]);
        }
        if (best >= limit)
            return limit;
        before = last;
        last = row;
        row = spare;
    }
    return least(last[n_b], limit);
}

/* One edit in three bytes still looks like a slip. */
void suggest_begin(struct suggestion *s, const char *word, size_t n_bytes)
{
    *s = (struct suggestion){.word = word, .n_bytes = n_bytes};
    s->distance = n_bytes < 3 ? 2 : n_bytes / 3 + 1;
}

void suggest_among(struct suggestion *s, const char *candidate, size_t n_bytes)
{
    if (s->n_bytes > LONGEST || n_bytes > LONGEST || n_bytes < 2)
        return;
    size_t d = distance(s->word, s->n_bytes, candidate, n_bytes, s->distance);
    /* A prefix ranks as the worst candidate that counts. */
    if (d == s->distance && s->best == NULL && s->n_bytes >= 3 &&
        n_bytes > s->n_bytes && memcmp(candidate, s->word, s->n_bytes) == 0)
        d--;
    if (d >= s->distance)
        return;
    s->distance = d;
    s->best = candidate;
    s->best_bytes = n_bytes;
}

char *suggestion_text(const struct suggestion *s)
{
    static const char pattern[] = ": did you mean '%s'?";
    if (s->best == NULL)
        return NULL;
    char *best = escape(s->best, s->best_bytes);
    char *text = memory_or_exit(malloc(sizeof(pattern) + strlen(best)));
    sprintf(text, pattern, best);
    free(best);
    return text;
}
