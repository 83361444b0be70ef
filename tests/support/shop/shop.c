/* Scenes: words, files by their names, and steps one after the other. See shop.h. */
#include "verbs.h"

struct shop shop;
struct verb verbs[VERBS_MAX];
size_t n_verbs;

/* ---- words ---- */

uint64_t number_of(const char *word)
{
    char *end;
    uint64_t n = strtoull(word, &end, 0);
    WANT(*word && !*end, "'%s' is no number", word);
    return n;
}

/* "MISMATCH", "EIO" */
static int code_of(const char *word)
{
    static const char *const words[] = {
        "OK",         "NOT_TAMIS", "VERSION", "DAMAGED",   "MISMATCH",
        "NO_SEGMENT", "NO_STORE",  "EXISTS",  "BUSY",      "SEALED",
        "POISONED",   "FORKED",    "RANGE",   "TOO_LARGE", "NETWORK",
        "READ_ONLY",  "CATALOG",   "UNFIT",   "REPLACED",  "THREAD"};
    for (int i = 0; i < (int)(N_OF(words)); i++)
        if (strcmp(words[i], word) == 0)
            return -i;
    for (int i = 1; i < 134; i++)
        if (strerrorname_np(i) && strcmp(strerrorname_np(i), word) == 0)
            return i;
    fail_msg("'%s' is no error", word);
    return 0;
}

enum tamis_reason reason_named(const char *word)
{
    for (int i = TAMIS_HIT; i <= TAMIS_UNREADABLE; i++)
        if (strcmp(tamis_reason_name((enum tamis_reason)i), word) == 0)
            return (enum tamis_reason)i;
    WANT(strcmp(word, "ABSENT") == 0, "'%s' is no reason", word);
    return ABSENT_HERE;
}

const char *option_of(const struct step *s, const char *word)
{
    size_t n = strlen(word);
    for (int i = 1; i < s->n; i++)
        if (strncmp(s->word[i], word, n) == 0 && s->word[i][n] == '=')
            return s->word[i] + n + 1;
    return NULL;
}

uint64_t number_option(const struct step *s, const char *word)
{
    const char *value = option_of(s, word);
    return value ? number_of(value) : 0;
}

/* ---- the store and its files ---- */

struct tamis_store *opened(void)
{
    if (!shop.store)
        shop.store = store_open(shop.dir);
    return shop.store;
}

void call_file(const char *name, const char *path)
{
    size_t i = 0;
    while (i < shop.n_files && strcmp(shop.file[i].name, name) != 0)
        i++;
    assert_true(i < SHOP_FILES);
    shop.n_files += i == shop.n_files;
    snprintf(shop.file[i].name, sizeof shop.file[i].name, "%s", name);
    snprintf(shop.file[i].path, sizeof shop.file[i].path, "%s", path);
}

void know_files(void)
{
    SNAPSHOT snap;
    char name[80], path[700], file[FILTER_NAME_BYTES];
    if (tamis_snapshot_current(shop.store, &snap, NULL) != 0)
        return;
    for (size_t i = 0, n = 0; tamis_snapshot_next(snap, &i); i++) {
        struct tamis_segment_info info = segment_at(snap, i);
        if (info.name_bytes > 8 || !info.name || !info.file[0] || n++ > 20)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)info.name_bytes,
                 (const char *)info.name);
        snprintf(path, sizeof path, "%s/%s", path_of(shop.dir), info.file);
        call_file(name, path);
        struct record r = info.state ? record_in(shop.store, name) : (struct record){0};
        if (!record_listed(&r))
            continue;
        filter_file_name(r.list_uuid, file);
        snprintf(path, sizeof path, "%s/filters/%s", path_of(shop.dir), file);
        strcat(name, ".list");
        call_file(name, path);
    }
}

void closed(void)
{
    if (shop.store)
        know_files();
    tamis_store_close(shop.store);
    shop.store = NULL;
}

const char *path_at(const char *word)
{
    char path[300];
    const char *brace = strchr(word, '{');
    if (brace) { /* "dir/{a}": the file of a there */
        snprintf(path, sizeof path, "%.*s", (int)strcspn(brace, "}") - 1, brace + 1);
        snprintf(path, sizeof path, "%.*s%s", (int)(brace - word), word,
                 strrchr(path_at(path), '/') + 1);
        return path_at(path);
    }
    if (strncmp(word, "aside:", 6) == 0)
        return aside_of(shop.dir, path_at(word + 6));
    if (strncmp(word, "aside2:", 7) == 0) {
        snprintf(path, sizeof path, "%s.1", strrchr(path_at(word + 7), '/'));
        return aside_of(shop.dir, path);
    }
    for (size_t i = 0; i < shop.n_files; i++)
        if (strcmp(shop.file[i].name, word) == 0)
            return shop.file[i].path;
    if (word[0] == '=')
        return path_of(word + 1);
    if (strcmp(word, "pack") == 0 || strcmp(word, "dead") == 0)
        return word[0] == 'p' ? pack_file() : dead_file();
    bool catalog = strcmp(word, "catalog") == 0, lock = strcmp(word, "lock") == 0;
    snprintf(path, sizeof path, "%s/%s%s", shop.dir,
             catalog || lock ? "catalog.lmdb" : word, lock ? "-lock" : "");
    return path_of(path);
}

int put_built(struct tamis_edit *e, struct tamis_builder *b, bool packed)
{
    struct tamis_packer *p;
    if (!packed)
        return tamis_edit_put(e, b, NULL, &shop.diag);
    OK(tamis_edit_packer(e, NULL, &p, NULL));
    int rc = tamis_packer_take(p, b, &shop.diag);
    if (!rc)
        rc = tamis_edit_put_packed(e, p, NULL, &shop.diag);
    tamis_packer_free(p);
    return rc;
}

void note_count(const char *word, uint64_t value)
{
    size_t i = 0;
    while (i < shop.n_counts && strcmp(shop.count[i].word, word) != 0)
        i++;
    assert_true(i < sizeof shop.count / sizeof shop.count[0]);
    shop.n_counts += i == shop.n_counts;
    shop.count[i].word = word;
    shop.count[i].value = value;
}

const char *name_at(const struct step *s, int i)
{
    WANT(i < s->n, "a word is missing");
    return s->word[i];
}

uint64_t number_at(const struct step *s, int i)
{
    return number_of(name_at(s, i));
}

uint32_t index_named(struct tamis_snapshot *snap, const char *name)
{
    struct tamis_target t;
    tamis_snapshot_find(snap, name, strlen(name), NULL, 0, 0, &t);
    WANT(t.ordinal, "no segment '%s'", name);
    return t.ordinal - 1;
}

/* ---- scenes ---- */

/* The first of a text's steps; returns what follows, or NULL. */
static const char *step_of(const char *text, struct step *s)
{
    char *save, *word;
    size_t n = strcspn(text, ";");
    while (n && (text[0] == ' ' || text[0] == '\n'))
        text++, n--;
    assert_true(n < sizeof s->text[0]);
    snprintf(s->text[0], sizeof s->text[0], "%.*s", (int)n, text);
    memcpy(s->text[1], s->text[0], sizeof s->text[0]);
    const char *space = strchr(s->text[0], ' ');
    s->rest = space ? space + 1 : "";
    s->n = 0;
    for (word = strtok_r(s->text[1], " ", &save); word;
         word = strtok_r(NULL, " ", &save)) {
        if (s->n < SHOP_WORDS)
            s->word[s->n++] = word;
    }
    return text[n] ? text + n + 1 : NULL;
}

static const struct verb *verb_of(const char *word)
{
    for (size_t i = 0; i < n_verbs; i++)
        if (strcmp(verbs[i].word, word) == 0)
            return &verbs[i];
    fail_msg("no such step");
    return NULL;
}

/* fails CODE STEP: the call must fail so; or fails ANY STEP. live STEP: while the store
 * is open. */
static void take_step(struct step *s)
{
    int want = 0, first = 0;
    bool any = false;
    if (strcmp(s->word[0], "fails") == 0) {
        any = strcmp(name_at(s, 1), "ANY") == 0;
        want = any ? 0 : code_of(s->word[1]);
        first = 2;
    }
    bool live = strcmp(name_at(s, first), "live") == 0;
    first += live;
    s->n -= first;
    memmove(s->word, s->word + first, (size_t)s->n * sizeof s->word[0]);
    const struct verb *v = verb_of(name_at(s, 0));
    if (live)
        opened(), know_files();
    else if (v->closed)
        closed();
    int rc = v->change ? change(v->change, s) : v->call ? v->call(s) : (v->act(s), 0);
    WANT(any ? rc != 0 : rc == want, "%d, not %d: %s", rc, want, shop.diag.what);
}

void steps(const char *text, ...)
{
    static char all[6000];
    static struct step s; /* shop.at shows it when a test has failed */
    va_list args;
    va_start(args, text);
    assert_true(vsnprintf(all, sizeof all, text, args) < (int)sizeof all);
    va_end(args);
    for (const char *at = all; at;) {
        at = step_of(at, &s);
        shop.at = s.text[0];
        if (s.n)
            take_step(&s);
    }
}

void scene_ends(void)
{
    for (size_t i = 0; i < sizeof shop.edits / sizeof shop.edits[0]; i++)
        tamis_edit_abort(shop.edits[i]);
    tamis_writer_close(shop.writer, NULL);
    tamis_snapshot_release(shop.held);
    tamis_store_close(shop.store);
    shop = (struct shop){.scene = NULL};
}

void scene(const char *name)
{
    scene_ends();
    OK(test_dir_remove(NULL));
    OK(test_dir_create(NULL)); /* a new name: see TMPDIR in tests/unit.sh */
    shop = (struct shop){.scene = name, .dir = "s", .store = store_new("s")};
}

int shop_closes(void **state)
{
    if (shop.scene)
        print_message("in '%s', at '%s'\n", shop.scene, shop.at ? shop.at : "");
    io_calls = calls_before.pread ? calls_before : io_calls;
    return test_dir_remove(state);
}

void play_rows(const struct scene_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        play(rows[i].name, "%s;%s;%s", rows[i].made, rows[i].harm, rows[i].then);
}
