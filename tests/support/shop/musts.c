/* Verbs of scenes that say what must be so. */
#include "verbs.h"

struct record noted;

static void must_say_why(enum tamis_reason got, const char *want)
{
    WANT(got == reason_named(want), "%s", got ? tamis_reason_name(got) : "ABSENT");
}

/* why NAME [KEY REASON]...; hash: without the key's bytes; was: in the held snapshot.
 */
MUST(why)
{
    struct tamis_snapshot *snap = s->word[0][2] == 's' && s->word[0][0] == 'w'
                                      ? shop.held
                                      : snapshot_of(opened());
    const char *name = name_at(s, 1);
    struct tamis_domain d = tamis_snapshot_info(snap).domain;
    struct tamis_target t;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    for (int i = 2; i < s->n; i += 2) {
        const char *text = key_text(number_at(s, i));
        struct tamis_key key = tamis_key_of(&d, text, strlen(text));
        enum tamis_reason why;
        if (s->word[0][0] == 'h')
            key.bytes = NULL;
        bool absent = tamis_snapshot_probe(snap, &t, &key, &why) == TAMIS_ABSENT;
        IS(absent, why == ABSENT_HERE);
        must_say_why(why, name_at(s, i + 1));
    }
    if (snap != shop.held)
        tamis_snapshot_release(snap);
}
MUST_TOO(hash, why)
MUST_TOO(was, why)

/* has NAME FIRST N: none of the keys is absent. */
MUST(has)
{
    check_keys(opened(), name_at(s, 1), number_at(s, 2), number_at(s, 3));
}

/* hits NAME FIRST N [REASON]: each key says so, by its hash. */
MUST(hits)
{
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_target t;
    const char *name = name_at(s, 1), *want = s->n > 4 ? s->word[4] : "HIT";
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    for (uint64_t i = number_at(s, 2), end = i + number_at(s, 3); i < end; i++) {
        struct tamis_key key = key_in(shop.store, i);
        enum tamis_reason why;
        key.bytes = NULL;
        tamis_snapshot_probe(snap, &t, &key, &why);
        must_say_why(why, want);
    }
}

/* all KEY MAYBE|ABSENT */
MUST(all)
{
    IS(everywhere(opened(), number_at(s, 1)), name_at(s, 2)[0] == 'A');
}

/* The same of the snapshot that is held. */
MUST(was_all)
{
    struct tamis_key key = key_in(opened(), number_at(s, 1));
    IS(ASK(shop.held, ALL, KEYS(&key, 1)), name_at(s, 2)[0] == 'A');
}

/* every N REASON, for segments of store_of(): some keys of each. */
MUST(every)
{
    SNAPSHOT snap = snapshot_of(opened());
    for (unsigned i = 0; i < number_at(s, 1); i++)
        for (unsigned k = 0; k < n_keys[i]; k += 1 + n_keys[i] / 3)
            must_say_why(reason_of(shop.store, name_of(i), i * 1000 + k),
                         name_at(s, 2));
}

/* each FIRST END REASON: all keys of these. */
MUST(each)
{
    for (unsigned i = (unsigned)number_at(s, 1); i < number_at(s, 2); i++)
        for (unsigned k = 0; k < n_keys[i]; k++)
            must_say_why(reason_of(opened(), name_of(i), i * 1000 + k), name_at(s, 3));
}

/* none_lost N: no key of segments of store_of() is absent. */
MUST(none_lost)
{
    for (unsigned i = 0; i < number_at(s, 1); i++)
        assert_int_not_equal(reason_of(opened(), name_of(i), i * 1000), ABSENT_HERE);
}

uint64_t count_named(const char *word)
{
    for (size_t k = 0; k < shop.n_counts; k++)
        if (strcmp(shop.count[k].word, word) == 0)
            return shop.count[k].value;
    fail_msg("no count '%s'", word);
    return 0;
}

/* is COUNT=N... of the last report */
MUST(is)
{
    for (int i = 1; i < s->n; i++) {
        char word[40];
        size_t n = strcspn(s->word[i], "=");
        snprintf(word, sizeof word, "%.*s", (int)n, s->word[i]);
        WANT(count_named(word) == number_of(s->word[i] + n + 1), "%s: %llu", word,
             (unsigned long long)count_named(word));
    }
}

/* The words that a step wants to read: "{a.list}" is the name of that file. */
static const char *words_of(const struct step *s)
{
    static char words[700];
    char file[64];
    const char *brace = strchr(s->rest, '{');
    size_t n = brace ? strcspn(brace, "}") : 0;
    snprintf(file, sizeof file, "%.*s", brace ? (int)n - 1 : 0, brace ? brace + 1 : "");
    snprintf(words, sizeof words, "%.*s%s%s", brace ? (int)(brace - s->rest) : 600,
             s->rest, brace ? strrchr(path_at(file), '/') + 1 : "",
             brace ? brace + n + 1 : "");
    return words;
}

/* says WORDS: one of the findings does */
MUST(says)
{
    SAW(words_of(s));
}

/* seen N: findings of the last call */
MUST(seen)
{
    IS(seen.n, number_at(s, 1));
}

/* Another snapshot is the one that is held. */
MUST(unchanged)
{
    SNAPSHOT again = snapshot_of(opened());
    assert_ptr_equal(again, shop.held);
}

/* filter NAME: the call for it */
CALL(filter)
{
    SNAPSHOT snap = snapshot_of(opened());
    FILTER f;
    return tamis_snapshot_filter(snap, index_named(snap, name_at(s, 1)), &f,
                                 &shop.diag);
}

/* bound NAME BINDING [KEY REASON]...: of a caller that names a binding. */
MUST(bound)
{
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_target t;
    const char *name = name_at(s, 1), *binding = name_at(s, 2);
    tamis_snapshot_find(snap, name, strlen(name), binding, strlen(binding), 0, &t);
    for (int i = 3; i < s->n; i += 2) {
        struct tamis_key key = key_in(shop.store, number_at(s, i));
        enum tamis_reason why;
        tamis_snapshot_probe(snap, &t, &key, &why);
        must_say_why(why, name_at(s, i + 1));
    }
}

/* placed NAME: in the column of the record that was noted. */
MUST(placed)
{
    struct record r = record_in(opened(), name_at(s, 1));
    assert_memory_equal(&r.place, &noted.place, sizeof r.place);
}

/* needs NAME WATERMARK KEY REASON: of a caller that requires that watermark. */
MUST(needs)
{
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_target t =
        tamis_snapshot_target(snap, index_named(snap, name_at(s, 1)));
    struct tamis_key key = key_in(shop.store, number_at(s, 3));
    enum tamis_reason why;
    t.min_watermark = number_at(s, 2);
    tamis_snapshot_probe(snap, &t, &key, &why);
    must_say_why(why, name_at(s, 4));
}

static size_t n_bad_pages(const char *path)
{
    struct tamis_verify v;
    FILTER f = open_filter(path);
    tamis_filter_verify(f, &v, NULL);
    return v.n_damaged;
}

/* bad FILE [FILE]: pages fail their check, and as many in the other one. */
MUST(bad)
{
    size_t n = n_bad_pages(path_at(name_at(s, 1)));
    WANT(n > 0, "none");
    if (s->n > 2)
        IS(n_bad_pages(path_at(s->word[2])), n);
}

/* leapt NAME: the file's sequence is beyond what the catalog knows. */
MUST(leapt)
{
    assert_true(commit_of(path_at(name_at(s, 1))).sequence >
                record_in(opened(), s->word[1]).min_sequence);
}

/* range NAME [FIRST LAST]: of its keys, as text */
MUST(range)
{
    SNAPSHOT snap = snapshot_of(opened());
    struct tamis_segment_info info = segment_at(snap, index_named(snap, name_at(s, 1)));
    if (s->n < 3) {
        assert_null(info.first_key);
        return;
    }
    assert_non_null(info.first_key);
    IS(info.first_key_bytes, strlen(s->word[2]));
    assert_memory_equal(info.first_key, s->word[2], info.first_key_bytes);
    IS(info.last_key_bytes, strlen(name_at(s, 3)));
    assert_memory_equal(info.last_key, s->word[3], info.last_key_bytes);
}

/* find NAME [binding=] [watermark=] */
CALL(find)
{
    struct tamis_target t;
    const char *binding = option_of(s, "binding");
    SNAPSHOT snap = snapshot_of(opened());
    return tamis_snapshot_find(snap, name_at(s, 1), strlen(s->word[1]), binding,
                               binding ? strlen(binding) : 0,
                               number_option(s, "watermark"), &t);
}

/* told WORDS: in the diagnosis of the last call; told_file WORDS: by its file. */
MUST(told)
{
    const char *how = s->word[0] + 4;
    const char *text = strcmp(how, "_file") == 0 ? shop.diag.file : shop.diag.what;
    WANT((strstr(text, words_of(s)) != NULL) == (strcmp(how, "_not") != 0), "'%s'",
         text);
}
MUST_TOO(told_file, told)
MUST_TOO(told_not, told)

static size_t n_in(const char *dir)
{
    return exists(path_at(dir)) ? count_files(path_at(dir)) : 0;
}

/* files N in filters/; aside N in quarantine/ */
MUST(files)
{
    size_t n = n_in(s->word[0][0] == 'f' ? "filters" : "quarantine");
    WANT(n == number_at(s, 1), "%zu", n);
}
MUST_TOO(aside, files)

/* there FILE..., gone FILE... */
MUST(there)
{
    for (int i = 1; i < s->n; i++)
        WANT(exists(path_at(s->word[i])) == (s->word[0][0] == 't'), "%s", s->word[i]);
}
MUST_TOO(gone, there)

MUST(unmapped)
{
    (void)s;
    IS(count_mappings(".tamis (deleted)"), 0);
}

/* same FILE FILE: byte for byte */
MUST(same)
{
    size_t n;
    FREED uint8_t *bytes = file_read(path_at(name_at(s, 1)), &n);
    file_has(path_at(name_at(s, 2)), bytes, n);
}

MUST(segments)
{
    SNAPSHOT snap = snapshot_of(opened());
    IS(tamis_snapshot_info(snap).n_segments, number_at(s, 1));
}

/* listed NAME..., unlisted NAME..., packed NAME..., loose NAME... */
MUST(listed)
{
    for (int i = 1; i < s->n; i++) {
        struct record r = record_in(opened(), s->word[i]);
        bool list = strstr(s->word[0], "list"), yes = strchr("lp", s->word[0][0]);
        bool is = list ? record_listed(&r) : record_packed(&r);
        WANT(is == (yes && strcmp(s->word[0], "loose") != 0), "%s", s->word[i]);
    }
}
MUST_TOO(unlisted, listed)
MUST_TOO(packed, listed)
MUST_TOO(loose, listed)

/* record NAME FIELD=VALUE... */
MUST(record)
{
    struct record r = record_in(opened(), name_at(s, 1));
    const struct {
        const char *word;
        uint64_t value;
    } field[] = {{"state", r.state},         {"rank", r.rank},
                 {"watermark", r.watermark}, {"keys", r.keys},
                 {"stages", r.min_stages},   {"range", r.has_range},
                 {"ro_compat", r.ro_compat}, {"compat", r.compat}};
    for (size_t i = 0; i < N_OF(field); i++)
        if (option_of(s, field[i].word))
            WANT(field[i].value == number_option(s, field[i].word), "%s: %llu",
                 field[i].word, (unsigned long long)field[i].value);
    const char *binding = option_of(s, "binding");
    if (binding)
        WANT(r.binding_bytes == strlen(binding) &&
                 memcmp(r.binding, binding, r.binding_bytes) == 0,
             "binding");
}

/* file NAME clean= watermark= layout=ribbon|bloom: of its commit record */
MUST(file)
{
    opened(), know_files();
    struct commit c = commit_of(path_at(name_at(s, 1)));
    if (option_of(s, "clean"))
        IS(c.clean, number_option(s, "clean"));
    if (option_of(s, "watermark"))
        IS(c.watermark, number_option(s, "watermark"));
    if (option_of(s, "layout"))
        IS(c.stages[0].layout == LAYOUT_RIBBON, option_of(s, "layout")[0] == 'r');
}

MUST(note)
{
    noted = record_in(opened(), name_at(s, 1));
}

/* as_noted NAME [created]: whatever has become of its filter. */
MUST(as_noted)
{
    struct record r = record_in(opened(), name_at(s, 1));
    assert_true((r.created == noted.created || s->n < 3) && r.keys == noted.keys &&
                r.rank == noted.rank && r.watermark == noted.watermark &&
                r.target_error == noted.target_error &&
                r.binding_bytes == noted.binding_bytes);
    assert_memory_equal(r.binding, noted.binding, sizeof r.binding);
}

MUST(complete)
{
    SNAPSHOT snap = snapshot_of(opened());
    IS(tamis_snapshot_info(snap).complete, number_at(s, 1));
}

HARM(mark)
{
    shop.tree = tree_of(shop.dir);
}

/* Nothing has changed since `mark`. */
MUST(stays)
{
    assert_true(tree_of(shop.dir) == shop.tree);
}

HARM(settled)
{
    check_settled(shop.dir);
}

/* ---- what a reconcile registers ---- */

static uint8_t is_new[SHOP_WORDS];

/* only NAME[=BINDING]... [scope=]: these files are live, as of the held snapshot. */
CHANGE(only)
{
    struct tamis_identity files[SHOP_WORDS] = {{.name = NULL}};
    const char *scope = option_of(s, "scope");
    size_t n = (size_t)s->n - 1 - (scope != NULL); /* it is the last word */
    struct tamis_reconcile_options opt = {
        .size = sizeof opt, .scope = scope, .is_new = is_new};
    opt.scope_bytes = scope ? strlen(scope) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = s->word[i + 1], *end = strchrnul(name, '=');
        files[i] =
            (struct tamis_identity){name, (size_t)(end - name), *end ? end + 1 : NULL,
                                    strlen(end + (*end != 0)), NULL};
    }
    SNAPSHOT snap = shop.held ? snapshot_hold(shop.held) : snapshot_of(opened());
    return tamis_edit_reconcile(e, snap, files, n, &opt, &shop.diag);
}

/* new 0|1...: which of its files the last `only` has registered. */
MUST(new)
{
    for (int i = 1; i < s->n; i++)
        IS(is_new[i - 1], number_at(s, i));
}
