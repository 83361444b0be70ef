/* tamis file probe: may a key be in this one filter file? */
#include "file.h"

struct file_probe {
    struct tamis_filter *filter;
    struct name name;
    struct answers answers;
    enum tamis_answer last;
};

static int ask(void *ctx, const struct tamis_key *keys, size_t n)
{
    struct file_probe *p = ctx;
    enum tamis_reason why;
    for (size_t i = 0; i < n; i++) {
        struct tamis_explanation e;
        answer_begin(&p->answers, &keys[i]);
        p->last = p->answers.explain ? tamis_filter_explain(p->filter, &keys[i], &e)
                                     : tamis_filter_probe(p->filter, &keys[i], &why);
        if (p->answers.explain) {
            answer_explained(&p->answers, &keys[i], p->name, &e);
            why = e.reason;
        }
        if (p->answers.explain && p->answers.json)
            answer_candidates(&p->answers);
        if (p->last != TAMIS_ABSENT && (!p->answers.explain || p->answers.json))
            answer_pair(&p->answers, &keys[i], p->name, why);
        answer_end(&p->answers, &keys[i], p->last, 1);
    }
    return EXIT_DONE;
}

static int run(int argc, char **argv)
{
    struct file_probe p = {0};
    struct tamis_filter_info info;
    struct options o;
    parse_options(argc, argv, 1, 0, &o);
    check_probe_options(&o);
    int status = file_open(&o, &p.filter);
    if (status != EXIT_DONE)
        return status;
    p.name = filter_name(p.filter, o.args[0], &info);
    p.answers = answers_for(&o);
    status = ask_keys(&o, &info.domain, ask, &p);
    if (status == EXIT_DONE && given(&o, OPT_COUNT))
        print_totals(&p.answers);
    if (status == EXIT_DONE && given(&o, OPT_QUIET) && p.last == TAMIS_ABSENT)
        status = EXIT_ABSENT;
    tamis_filter_close(p.filter);
    return status;
}

const struct command cmd_file_probe = {
    .name = "file probe",
    .arguments = "FILE KEY... | FILE --keys KEYFILE [--quiet]",
    .summary = "tell whether a filter may hold a key",
    .about =
        "Prints KEY<TAB>SEGMENT<TAB>HIT (or another reason), or KEY<TAB>-<TAB>ABSENT. "
        "The segment is the name that the filter has, else the file's. A "
        "pack answers for all its columns together: with many of them few keys are "
        "absent. 'tamis probe STORE' asks each.\n",
    .options = {OPTION(KEYS_FILE),
                OPTION(OFFSET, "the filter starts here in FILE, a multiple of 4096"),
                OPTION(BIND, "the filter must be bound to this"), OPTION(MIN_WATERMARK),
                OPTION(COUNT),
                OPTION(EXPLAIN, "the reason as well: which stage, lane and offset"),
                OPTION(QUIET,
                       "print nothing: exit 0 if KEY may be there, 10 if absent"),
                OPTION(JSON),
                OPTIONS(KEY_FLAGS,
                        "form of KEYFILE: 'tamis help keys'; --hex: of KEY, too")},
    .examples = "tamis file probe words.tamis sieve\n"
                "tamis file probe words.tamis --keys wanted.txt --count\n",
    .run = run,
};
