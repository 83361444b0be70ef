/* No key is ever lost: random scripts of tests/steps, in which nothing breaks. Filters
 * of any growth are killed and opened again, with readers that look on; stores are
 * edited, packed and reopened, with a snapshot held. TAMIS_SEED=n repeats a run. */
#include "tests/support/support.h"
#include "tests/support/still_disk.h"

#define standing promised /* the library has a struct standing of its own */
#include "tests/steps/steps.h"

static uint64_t seed;
static char script[SCRIPT_BYTES];

_Noreturn void model_broken(const char *text)
{
    fprintf(stderr, "%s\nin the script: %s\nrepeat with TAMIS_SEED=%llu\n", text,
            script, (unsigned long long)seed);
    abort();
}

static void returned(struct player *p, int rc, int expected, const char *call)
{
    if (rc != expected)
        broken_steps("%s: %d, not %d: %s", call, rc, expected, p->diag.what);
}

/* A filter that says MAYBE to all would pass everything else. */
static void expect_use(double error)
{
    enum { N = 2000 };
    uint64_t hashes[N];
    struct tamis_filter *f = open_filter(path_of("f"));
    struct tamis_filter_info info;
    OK(tamis_filter_info(f, &info));
    random_hashes(hashes, N);
    double hits = N - (double)count_absent(f, hashes, N),
           most = N * info.expected_error;
    if (hits > most + 6 * sqrt(most) + 6)
        model_broken("too many false positives");
    if (!info.over_target && info.expected_error > error * 1.001)
        model_broken("an error that nobody planned");
    tamis_filter_close(f);
}

static void play_one(const char *template)
{
    static struct promises promises;
    const struct look look = {.cache = true};
    struct player p = {
        .p = &promises, .dir = test_dir, .returned = returned, .rng = seed};
    uint64_t rng = seed;
    memset(&promises, 0, sizeof promises);
    script_draw(template, &rng, script);
    play_text(&p, "%s", script);
    for (int reopened = 0; reopened < 2; reopened++) {
        steps_expect(&p, &look);
        steps_expect_held(&p);
        steps_expect_swept(&p);
        player_end(&p);
    }
}

static double log_uniform(double low, double high)
{
    return exp(log(low) + random_unit() * (log(high) - log(low)));
}

static void play_filter(void)
{
    char template[SCRIPT_BYTES];
    double error = log_uniform(1e-7, 0.3);
    snprintf(template, sizeof template,
             "lone f %d %.3f %.6g; 40..90*([add f 1|add f 1..9|fill f 2..200|fill f "
             "2..200|fill f 100..3000|commit f|commit f|watch f|shut f|kill f|alone f|"
             "look|build [a|b|c|d] 0..1 0..5000 %.6g [0|4096]]; ) [seal f; |]look",
             (int)log_uniform(1, 4000), 1.25 + random_unit() * 6.75, error, error);
    play_one(template);
    expect_use(error);
}

static const char store[] =
    "init; open; build e 700 50 .01; 40..60*([put [a|b|c|d] 0..900 1..300|"
    "put [a|b] 1 1..99|list a 0 200|bare [a|c]|grow [g|h] 40 2 .01|drop [a|b|c|g]|"
    "replace [a|b] 0..900 1..300|attach x e|begin; drop a; put a 5 9; put n 0 20; "
    "[end|abort]|retain a b g x|pack 0..1 0..2|begin; pput [m|n] 9 40; end|unpack|"
    "fill [g|h] 1..300|commit g|seal h; shut h|[shut|kill] g|hold|close; open|look]; ) "
    "look";

TEST_IN_DIR_WITH_FAULTS(test_no_key_is_ever_lost)
{
    const char *given = getenv("TAMIS_SEED");
    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000;
    for (unsigned n = by_form(12, 100); n > 0; n--, seed++) {
        random_state = seed;
        play_filter();
        play_one(store);
        OK(test_dir_remove(NULL));
        OK(test_dir_create(NULL));
    }
}

RUN_TESTS(NULL, NULL)
