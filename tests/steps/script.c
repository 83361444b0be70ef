/* Scripts: parsed, printed, drawn from templates, and shrunk. */
#include "tests/steps/steps.h"

#include <ctype.h>
#include <time.h>

uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

uint64_t draw_below(uint64_t *state, uint64_t n)
{
    return n ? draw(state) % n : 0;
}

/* ---- text to steps, and back ---- */

static const struct word *find_word(const char *text)
{
    for (const struct word *w = words; w->text; w++)
        if (strcmp(w->text, text) == 0)
            return w;
    return NULL;
}

static bool is_number(const char *token)
{
    return isdigit((unsigned char)token[token[0] == '.']);
}

static bool takes(const struct step *s)
{
    const struct word *w = s->word;
    return w && (w->more_names ? s->n_names >= w->n_names : s->n_names == w->n_names) &&
           s->n_numbers <= w->n_numbers;
}

static bool parse_step(char *text, struct step *out)
{
    char *rest, *token = strtok_r(text, " \t\n", &rest);
    memset(out, 0, sizeof *out);
    out->word = find_word(token);
    while (out->word && (token = strtok_r(NULL, " \t\n", &rest))) {
        if (is_number(token) && out->n_numbers < STEP_NUMBERS)
            out->number[out->n_numbers++] = strtod(token, NULL);
        else if (!is_number(token) && out->n_names < STEP_NAMES)
            snprintf(out->name[out->n_names++], NAME_BYTES, "%s", token);
        else
            return false;
    }
    return takes(out);
}

bool script_parse(const char *text, struct script *out)
{
    char copy[SCRIPT_BYTES], *rest, *one;
    out->n = 0;
    snprintf(copy, sizeof copy, "%s", text);
    for (one = strtok_r(copy, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
        char said[80];
        if (strspn(one, " \t\n") == strlen(one))
            continue;
        snprintf(said, sizeof said, "%s", one);
        if (out->n == MAX_STEPS || !parse_step(one, &out->step[out->n])) {
            fprintf(stderr, "no such step:%s\n", said);
            return false;
        }
        out->n++;
    }
    return true;
}

void script_print(const struct script *s, char text[SCRIPT_BYTES])
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < s->n && n < SCRIPT_BYTES - 256; i++) {
        const struct step *one = &s->step[i];
        n += (size_t)sprintf(text + n, "%s%s", i ? "; " : "", one->word->text);
        for (size_t k = 0; k < one->n_names; k++)
            n += (size_t)sprintf(text + n, " %s", one->name[k]);
        for (size_t k = 0; k < one->n_numbers; k++)
            n += (size_t)sprintf(text + n, " %.15g", one->number[k]);
    }
}

/* ---- templates ---- */

struct drawing {
    const char *at;
    uint64_t *rng;
    char *to, *end;
};

static void put_text(struct drawing *d, const char *from, size_t n, bool wanted)
{
    if (!wanted)
        return;
    if (n >= (size_t)(d->end - d->to))
        abort(); /* the template draws too much */
    memcpy(d->to, from, n);
    d->to += n;
    *d->to = 0;
}

static void draw_until(struct drawing *d, const char *stop, bool wanted);

static void draw_choice(struct drawing *d, bool wanted)
{
    const char *start = d->at;
    size_t n = 0, chosen;
    do {
        draw_until(d, "|]", false);
        n++;
    } while (*d->at++ == '|');
    const char *end = d->at;
    chosen = wanted ? draw_below(d->rng, n) : n;
    d->at = start;
    for (size_t i = 0; i < n && i <= chosen; i++, d->at++)
        draw_until(d, "|]", i == chosen);
    d->at = end;
}

/* "A..B", and perhaps "*( ... )" behind it. */
static bool draw_number(struct drawing *d, bool wanted)
{
    char *dots, *end, text[32];
    unsigned long low = strtoul(d->at, &dots, 10);
    if (!isdigit((unsigned char)d->at[0]) || strncmp(dots, "..", 2) != 0)
        return false;
    unsigned long high = strtoul(dots + 2, &end, 10);
    uint64_t n = wanted ? low + draw_below(d->rng, high - low + 1) : 0;
    d->at = end;
    if (strncmp(d->at, "*(", 2) != 0) {
        put_text(d, text, (size_t)sprintf(text, "%llu", (unsigned long long)n), wanted);
        return true;
    }
    const char *body = d->at + 2;
    for (uint64_t i = 0; i < n || i == 0; i++) {
        d->at = body;
        draw_until(d, ")", wanted && i < n);
    }
    d->at++;
    return true;
}

/* Up to one of these characters that is not in brackets. */
static void draw_until(struct drawing *d, const char *stop, bool wanted)
{
    bool in_word = false;
    while (*d->at && !strchr(stop, *d->at)) {
        if (*d->at == '[') {
            d->at++;
            draw_choice(d, wanted);
        } else if (in_word || !draw_number(d, wanted)) {
            in_word = isalnum((unsigned char)*d->at) || *d->at == '.';
            put_text(d, d->at++, 1, wanted);
        }
    }
}

void script_draw(const char *template, uint64_t *rng, char text[SCRIPT_BYTES])
{
    struct drawing d = {template, rng, text, text + SCRIPT_BYTES};
    text[0] = 0;
    draw_until(&d, "", true);
}

/* ---- shrinking ---- */

char *script_said;

void script_failed(const char *text)
{
    size_t n = 0;
    if (!script_said)
        return;
    for (; *text && n + 1 < SAID_BYTES; text++)
        if (!isdigit((unsigned char)*text))
            script_said[n++] = *text;
    script_said[n] = 0;
}

static struct {
    void (*run)(const char *text, void *ctx);
    void *ctx;
    char said[SAID_BYTES];
    time_t deadline;
} shrinking;

/* In a process of its own, in silence: in the same way? */
static bool fails(const struct script *s)
{
    enum { HANG_SECONDS = 30 };
    char text[SCRIPT_BYTES];
    if (time(NULL) >= shrinking.deadline)
        return false;
    script_print(s, text);
    script_said[0] = 0;
    pid_t child = process_start(HANG_SECONDS);
    if (child == 0) {
        process_silent();
        shrinking.run(text, shrinking.ctx);
        _exit(0);
    }
    int status = process_end(child);
    return status && !(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) &&
           strcmp(script_said, shrinking.said) == 0;
}

static bool take_if_fails(struct script *s, const struct script *less)
{
    if (!fails(less))
        return false;
    *s = *less;
    return true;
}

static bool without_one(struct script *s)
{
    bool smaller = false;
    for (size_t i = s->n; i-- > 0;) {
        struct script less = *s;
        memmove(&less.step[i], &less.step[i + 1],
                (less.n - i - 1) * sizeof less.step[0]);
        less.n--;
        smaller |= take_if_fails(s, &less);
    }
    return smaller;
}

static bool halve(struct script *s)
{
    bool smaller = false;
    for (size_t i = 0; i < s->n; i++)
        for (size_t k = 0; k < s->step[i].n_numbers; k++) {
            struct script less = *s;
            uint64_t n = (uint64_t)less.step[i].number[k];
            less.step[i].number[k] = (double)(n / 2);
            if (n && (double)n >= s->step[i].number[k])
                smaller |= take_if_fails(s, &less);
        }
    return smaller;
}

void script_shrink(char text[SCRIPT_BYTES], void (*run)(const char *text, void *ctx),
                   void *ctx)
{
    enum { SECONDS = 60 };
    static struct script s;
    shrinking.run = run;
    shrinking.ctx = ctx;
    shrinking.deadline = time(NULL) + SECONDS;
    memcpy(shrinking.said, script_said, sizeof shrinking.said);
    if (!script_parse(text, &s))
        return;
    while (fails(&s) && (without_one(&s) || halve(&s)))
        ;
    script_print(&s, text);
}
