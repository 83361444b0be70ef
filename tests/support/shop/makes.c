/* Verbs of scenes that make and harm a store. */
#include <sys/socket.h>
#include <sys/un.h>

#include "verbs.h"

static struct tamis_segment_options options_of(const struct step *s)
{
    const char *binding = option_of(s, "binding");
    return (struct tamis_segment_options){
        .size = sizeof(struct tamis_segment_options),
        .binding = binding,
        .binding_bytes = binding ? strlen(binding) : 0,
        .rank = (uint32_t)number_option(s, "rank"),
        .watermark = number_option(s, "watermark"),
        .memory_limit = number_option(s, "memory"),
        .list_bits = number_option(s, "list"),
        .kind = option_of(s, "kind") ? TAMIS_RIBBON : 0,
        .replace = option_of(s, "replace") || strcmp(s->word[0], "replace") == 0};
}

/* The snapshot that is held, or a new one. */
static struct tamis_snapshot *snapshot_now(void)
{
    return shop.held ? shop.held : snapshot_of(opened());
}

static void snapshot_done(struct tamis_snapshot *snap)
{
    if (snap != shop.held)
        tamis_snapshot_release(snap);
}

/* ---- edits ---- */

/* put NAME FIRST N [OPTION=VALUE]... */
CHANGE(put)
{
    BUILDER b;
    struct tamis_segment_options opt = options_of(s);
    const char *name = name_at(s, 1), *error = option_of(s, "error");
    uint64_t first = number_at(s, 2), n = number_at(s, 3);
    int rc = tamis_edit_builder(e, name, strlen(name), error ? atof(error) : 0, &opt,
                                &b, &shop.diag);
    for (uint64_t i = first; !rc && i < first + n; i++)
        OK(tamis_builder_add_key(b, key_text(i), strlen(key_text(i))));
    return rc ? rc : put_built(e, b, option_of(s, "packed") != NULL);
}

/* texts NAME KEY...; hashed NAME KEY...: by their hashes only, and numbered. */
CHANGE(texts)
{
    BUILDER b = builder_in(e, name_at(s, 1), NULL);
    for (int i = 2; i < s->n; i++) {
        const char *text = s->word[i];
        struct tamis_domain d = builder_facts(b).domain;
        if (s->word[0][0] == 'h')
            text = key_text(number_at(s, i));
        uint64_t hash = tamis_key_of(&d, text, strlen(text)).hash;
        OK(s->word[0][0] == 'h' ? tamis_builder_add_hashes(b, d.tag, &hash, 1)
                                : tamis_builder_add_key(b, text, strlen(text)));
    }
    return tamis_edit_put(e, b, NULL, &shop.diag);
}
LIST_VERB(hashed, .change = verb_texts)

CHANGE(bare)
{
    struct tamis_segment_options opt = options_of(s);
    return tamis_edit_put_bare(e, name_at(s, 1), strlen(s->word[1]), &opt, &shop.diag);
}

CHANGE(growing)
{
    struct tamis_segment_options opt = options_of(s);
    return tamis_edit_put_growing(e, name_at(s, 1), strlen(s->word[1]), NULL, &opt,
                                  &shop.diag);
}

CHANGE(drop)
{
    int rc = 0;
    for (int i = 1; i < s->n && !rc; i++)
        rc = tamis_edit_drop(e, s->word[i], strlen(s->word[i]), NULL, &shop.diag);
    return rc;
}

/* replace NAME FIRST N: as `put ... replace=1`. */
LIST_VERB(replace, .change = verb_put)

/* attach NAME FILE */
CHANGE(attach)
{
    struct tamis_segment_options opt = options_of(s);
    return tamis_edit_attach(e, name_at(s, 1), strlen(s->word[1]),
                             path_at(name_at(s, 2)), &opt, &shop.diag);
}

/* pack [dry=1] [how=ALL|AUTO] [NAME]... */
CHANGE(pack)
{
    const char *how = option_of(s, "how");
    struct tamis_pack_options opt = {.size = sizeof opt,
                                     .dry_run = (int)number_option(s, "dry"),
                                     .repack = how ? how[1] == 'L' ? TAMIS_REPACK_ALL
                                                                   : TAMIS_REPACK_AUTO
                                                   : TAMIS_REPACK_NONE};
    struct tamis_pack_report r = {0};
    struct tamis_snapshot *snap = snapshot_now();
    uint32_t some[SHOP_WORDS];
    size_t n = 0;
    for (int i = 1; i < s->n; i++)
        if (!strchr(s->word[i], '='))
            some[n++] = index_named(snap, s->word[i]);
    int rc = tamis_edit_pack(e, snap, n ? some : NULL, n, &opt, &r, &shop.diag);
    snapshot_done(snap);
    note_count("packed", r.n_packed);
    note_count("packed_before", r.n_left[TAMIS_LEFT_PACKED]);
    note_count("repacked", r.n_repacked);
    note_count("larger", r.n_left[TAMIS_LEFT_LARGER]);
    note_count("newer", r.n_left[TAMIS_LEFT_NEWER]);
    note_count("ribbons", r.n_left[TAMIS_LEFT_RIBBON]);
    note_count("stages", r.n_left[TAMIS_LEFT_STAGES]);
    note_count("replaced", r.n_left[TAMIS_LEFT_REPLACED]);
    note_count("unreadable", r.n_left[TAMIS_LEFT_UNREADABLE]);
    note_count("why_left", r.why_left);
    return rc;
}

CHANGE(unpack)
{
    uint32_t some[SHOP_WORDS];
    struct tamis_snapshot *snap = snapshot_now();
    for (int i = 1; i < s->n; i++)
        some[i - 1] = index_named(snap, s->word[i]);
    int rc = tamis_edit_unpack(e, snap, some, (size_t)s->n - 1, &shop.diag);
    snapshot_done(snap);
    return rc;
}

/* from_list NAME [error=E] */
CHANGE(from_list)
{
    const char *error = option_of(s, "error");
    struct tamis_snapshot *snap = snapshot_now();
    int rc = tamis_edit_from_list(e, snap, index_named(snap, name_at(s, 1)),
                                  error ? atof(error) : 0, NULL, &shop.diag);
    snapshot_done(snap);
    return rc;
}

/* derive NAME SOURCE... how=union|intersection|shrink|fold [error=] [factor=] */
CHANGE(derive)
{
    static const char *const how[] = {"union", "intersection", "fold", "shrink"};
    static const int operations[] = {TAMIS_UNION, TAMIS_INTERSECTION, TAMIS_FOLD,
                                     TAMIS_SHRINK};
    struct tamis_segment_options opt = options_of(s);
    struct tamis_derivation what = {.factor = number_option(s, "factor")};
    struct tamis_derive_report r = {0};
    bool plain = !option_of(s, "binding") && !opt.replace;
    size_t from[SHOP_WORDS], n = 0;
    struct tamis_snapshot *snap = snapshot_now();
    for (size_t i = 0; i < 4; i++)
        if (strcmp(option_of(s, "how"), how[i]) == 0)
            what.operation = (__typeof__(what.operation))operations[i];
    if (option_of(s, "error"))
        what.error = atof(option_of(s, "error"));
    for (int i = 2; i < s->n; i++)
        if (!strchr(s->word[i], '='))
            from[n++] = index_named(snap, s->word[i]);
    int rc = tamis_edit_derive(e, name_at(s, 1), strlen(s->word[1]), snap, from, n,
                               &what, plain ? NULL : &opt, what.factor == 1 ? NULL : &r,
                               &shop.diag);
    snapshot_done(snap);
    note_count("bad_pages", r.n_damaged);
    note_count("derived", r.keys);
    return rc;
}

/* drop_if NAME [if=BINDING]: if it has the filter that was noted, or the binding;
 * update_if NAME [binding=] [rank=] [if=]: likewise; update: whatever it has */
CHANGE(drop_if)
{
    const char *binding = option_of(s, "if"), *name = name_at(s, 1);
    struct tamis_segment_options to = options_of(s);
    struct tamis_drop_if same = {.uuid = binding ? NULL : noted.uuid,
                                 .is_bound = binding != NULL,
                                 .binding = binding,
                                 .binding_bytes = binding ? strlen(binding) : 0};
    if (s->word[0][0] == 'd')
        return tamis_edit_drop(e, name, strlen(name), &same, &shop.diag);
    bool any = s->word[0][6] == 0;
    return tamis_edit_update(e, name, strlen(name), &to, any ? NULL : &same,
                             &shop.diag);
}
LIST_VERB(update, .change = verb_drop_if)
LIST_VERB(update_if, .change = verb_drop_if)

/* Segments s0 .. of store_of(). */
CHANGE(many)
{
    put_sized(opened(), e, (unsigned)number_at(s, 1), (unsigned)number_at(s, 2));
    return 0;
}

CALL(begin)
{
    uint64_t i = s->n > 1 ? number_at(s, 1) : 0;
    int rc = tamis_edit_begin(opened(), NULL, &shop.edits[i], &shop.diag);
    shop.edit = shop.edits[i];
    return rc;
}

/* From now on steps belong to edit I; none: to edits of their own. */
MUST(in)
{
    shop.edit = s->n > 1 ? shop.edits[number_at(s, 1)] : NULL;
}

/* Only if the edit is in the way of a writer it goes on. */
static int end_edit(struct tamis_edit *e, bool commits)
{
    int rc = commits ? tamis_edit_commit(e, &shop.diag) : 0;
    if (!commits || rc == TAMIS_ERR_BUSY)
        tamis_edit_abort(e);
    return rc;
}

CALL(commit)
{
    struct tamis_edit *e = shop.edit;
    shop.edit = NULL;
    for (size_t i = 0; i < sizeof shop.edits / sizeof shop.edits[0]; i++)
        shop.edits[i] = shop.edits[i] == e ? NULL : shop.edits[i];
    return end_edit(e, strcmp(s->word[0], "commit") == 0);
}
CALL_TOO(abort, commit)

int change(change_fn *fn, const struct step *s)
{
    struct tamis_edit *e = shop.edit;
    int rc = e ? 0 : tamis_edit_begin(opened(), NULL, &e, &shop.diag);
    rc = rc ? rc : fn(e, s);
    return shop.edit || !e ? rc : rc ? (end_edit(e, false), rc) : end_edit(e, true);
}

/* ---- other calls ---- */

/* open [missing]: it may be created, if it is missing */
CALL(open)
{
    struct tamis_open_options opt = {.size = sizeof opt,
                                     .create = s->n > 1 ? TAMIS_CREATE_IF_MISSING : 0};
    closed();
    int rc = tamis_store_open(path_of(shop.dir), &opt, &shop.store, &shop.diag);
    IS(rc, shop.diag.code);
    IS(rc == 0, shop.store != NULL);
    return rc;
}

MUST(close)
{
    closed();
}

/* use DIR: steps go on in that store, a copy perhaps. */
MUST(use)
{
    closed();
    snprintf(shop.dir, sizeof shop.dir, "%s", name_at(s, 1));
}

CALL(writer)
{
    struct tamis_writer *w;
    int rc = tamis_store_writer(opened(), name_at(s, 1), strlen(s->word[1]), NULL, &w,
                                &shop.diag);
    shop.writer = rc ? shop.writer : w;
    return rc;
}

CALL(end)
{
    struct tamis_writer *w = shop.writer;
    shop.writer = NULL;
    return tamis_writer_close(w, NULL);
}

MUST(add)
{
    add_keys(shop.writer, number_at(s, 1), number_at(s, 2));
}

CALL(write)
{
    return tamis_writer_commit(shop.writer, number_at(s, 1), &shop.diag);
}

CALL(seal)
{
    return tamis_writer_seal(shop.writer, number_at(s, 1), NULL, &shop.diag);
}

/* behind FILE: its writer, without the catalog. */
CALL(behind)
{
    opened();
    know_files();
    return tamis_writer_open(path_at(name_at(s, 1)), NULL, &shop.writer, &shop.diag);
}

/* grow NAME FIRST N WATERMARK */
MUST(grow)
{
    grow_keys(opened(), name_at(s, 1), number_at(s, 2), number_at(s, 3),
              number_at(s, 4));
}

/* A process commits keys from FIRST on to g, and dies. */
HARM(kill)
{
    kill_writer(shop.dir, number_at(s, 1));
}

/* confirm [force|plain]; plain: without options */
CALL(confirm)
{
    bool plain = s->n > 1 && strcmp(s->word[1], "plain") == 0;
    struct tamis_confirm_options opt = {
        .size = sizeof opt, .force = s->n > 1, .found = see};
    seen.n = 0;
    return tamis_store_confirm(opened(), plain ? NULL : &opt, &shop.diag);
}

static void note_repair(const struct tamis_repair_report *r)
{
    note_count("segments", r->n_segments);
    note_count("finished", r->n_finished);
    note_count("rebuilt", r->n_rebuilt);
    note_count("quarantined", r->n_quarantined);
    note_count("swept", r->n_swept);
    note_count("damaged", r->n_damaged);
    note_count("unread", r->n_unread);
    note_count("anew", (uint64_t)r->rebuilt);
    note_count("whole", (uint64_t)r->complete);
    note_count("done", n_done(r));
    note_count("seen", seen.n);
}

static uint8_t own_uuid[UUID_BYTES];

MUST(own_uuid)
{
    memcpy(own_uuid, store_info(opened()).uuid, sizeof own_uuid);
}

/* repair [dry] [uuid=own|other]; own: as of the step own_uuid */
HARM_CALL(repair)
{
    static const uint8_t other[UUID_BYTES] = {0xab, 0xcd};
    const char *uuid = option_of(s, "uuid");
    struct tamis_repair_report r = {0};
    bool dry = s->n > 1 && strcmp(s->word[1], "dry") == 0;
    int rc = repair_code(shop.dir, dry,
                         !uuid            ? NULL
                         : uuid[1] == 'w' ? own_uuid
                                          : other,
                         &r, &shop.diag);
    note_repair(&r);
    return rc;
}

/* backup DIR [plain]: without options and report */
CALL(backup)
{
    const struct tamis_backup_options opt = {.size = sizeof opt, .found = see};
    struct tamis_backup_report r = {0};
    bool plain = s->n > 2;
    seen.n = 0;
    int rc = tamis_store_backup(opened(), path_of(name_at(s, 1)), plain ? NULL : &opt,
                                plain ? NULL : &r, &shop.diag);
    note_count("segments", r.n_segments);
    note_count("files", r.n_files);
    note_count("damaged", r.n_damaged);
    note_count("left", r.n_left);
    note_count("seen", seen.n);
    note_count("errors", seen.n ? seen.n_errors : 0);
    return rc;
}

CALL(orphans)
{
    uint64_t n;
    int rc = tamis_store_orphans(opened(), NULL, NULL, &n, &shop.diag);
    note_count("orphans", n);
    return rc;
}

CALL(hold)
{
    return tamis_snapshot_current(opened(), &shop.held, &shop.diag);
}

MUST(release)
{
    tamis_snapshot_release(shop.held);
    shop.held = NULL;
}

/* ---- what becomes of files ---- */

HARM(lose)
{
    for (int i = 1; i < s->n; i++)
        OK(unlink(path_at(s->word[i])));
}

/* flip FILE AT */
HARM(flip)
{
    flip(path_at(name_at(s, 1)), number_at(s, 2));
}

/* zero FILE PAGE [TO] */
HARM(zero)
{
    uint64_t page = number_at(s, 2), last = s->n > 3 ? number_at(s, 3) : page;
    for (; page <= last; page++)
        zero_page(path_at(s->word[1]), page);
}

HARM_CALL(cut)
{
    return truncate(path_at(name_at(s, 1)), (off_t)number_at(s, 2));
}

/* poke FILE AT BYTE... */
HARM(poke)
{
    for (int i = 3; i < s->n; i++) {
        uint8_t byte = (uint8_t)number_at(s, i);
        file_poke(path_at(s->word[1]), number_at(s, 2) + (uint64_t)i - 3, &byte, 1);
    }
}

/* copy FROM TO: a catalog that is put back has no lock file of its own. */
HARM(copy)
{
    file_copy(path_at(name_at(s, 1)), path_at(name_at(s, 2)));
    if (strcmp(s->word[2], "catalog") == 0)
        unlink(path_at("lock"));
}

HARM_CALL(move)
{
    return rename(path_at(name_at(s, 1)), path_at(name_at(s, 2)));
}

HARM_CALL(swap)
{
    const char *a = path_at(name_at(s, 1)), *b = path_at(name_at(s, 2));
    return renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}

/* text FILE WORD */
HARM(text)
{
    file_write(path_at(name_at(s, 1)), name_at(s, 2), strlen(s->word[2]));
}

HARM_CALL(mkdir)
{
    return mkdir(path_at(name_at(s, 1)), 0777);
}

HARM_CALL(fifo)
{
    return mkfifo(path_at(name_at(s, 1)), 0666);
}

HARM(socket)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *path = path_at(name_at(s, 1));
    FD fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path) + 1);
    OK(bind(fd, (struct sockaddr *)(void *)&at, sizeof at));
}

HARM_CALL(link)
{
    return symlink(path_at(name_at(s, 2)), path_at(s->word[1]));
}

/* The first page with bits is below its floors. */
HARM(lose_page)
{
    lose_page(path_at(name_at(s, 1)));
}

/* call NAME FILE: its path, whatever FILE will mean. */
HARM(call)
{
    call_file(name_at(s, 1), path_at(name_at(s, 2)));
}

/* Another store begins. */
HARM(anew)
{
    remove_tree(shop.dir);
    shop.n_files = 0;
    shop.store = store_new(shop.dir);
}

/* other_digest FILE [SEED]: as if a file had been written anew under the name, or with
 * another seed. */
HARM(other_digest)
{
    size_t n, keys = IDENTITY_BYTES + STAGES_OFFSET + offsetof(struct stage_disk, keys);
    FREED uint8_t *bytes = file_read(path_at(name_at(s, 1)), &n);
    bytes[s->n > 2 ? offsetof(struct identity_disk, hash_seed) : keys] ^= 1;
    checksum_set(bytes, IDENTITY_BYTES, 0);
    checksum_set(bytes + IDENTITY_BYTES, BIRTH_BYTES, 0);
    file_write(path_at(s->word[1]), bytes, n);
}

/* The first half of all segments in one pack, the others in another. */
MUST(pack_in_two)
{
    pack_in_two(opened());
}

/* call_dead NAME PACK: the tombstones of that pack. */
HARM(call_dead)
{
    char path[700];
    const char *pack = path_at(name_at(s, 2));
    snprintf(path, sizeof path, "%.*s.dead", (int)strlen(pack) - 6, pack);
    call_file(s->word[1], path);
}

HARM(clear_aside)
{
    OK(nftw(path_at("quarantine"), remove_one, 16, FTW_DEPTH | FTW_PHYS));
}

/* build FILE [name=] [binding=] [seed=] [uuid=]: a filter of keys 0 .. 99, in the
 * store's domain if no seed is given. */
MUST(build)
{
    struct tamis_domain d = tamis_store_domain(opened());
    uint8_t uuid[UUID_BYTES] = {(uint8_t)number_option(s, "uuid")};
    closed();
    if (option_of(s, "seed"))
        OK(tamis_domain_init(&d, 1, number_option(s, "seed")));
    unlink(path_at(name_at(s, 1)));
    build_file(path_at(s->word[1]), &d, option_of(s, "name"), option_of(s, "binding"),
               uuid[0] ? uuid : NULL);
}

/* growing_file FILE: beside the store, and its writer. */
MUST(growing_file)
{
    struct tamis_domain d = tamis_store_domain(opened());
    const struct tamis_writer_options opt = {.size = sizeof opt, .domain = &d};
    shop.writer = writer_made(path_at(name_at(s, 1)), &opt);
}

/* The filter of a segment of another store, among those of this one, as "stranger". */
HARM(stranger)
{
    char to[1200];
    STORE t = exists(path_of("t")) ? store_open("t") : store_new("t");
    put_segment(t, name_at(s, 1), number_at(s, 2), number_at(s, 3));
    const char *theirs = file_of(t, "t", s->word[1]);
    snprintf(to, sizeof to, "%s/filters%s", path_of(shop.dir), strrchr(theirs, '/'));
    file_copy(theirs, to);
    call_file("stranger", to);
}

/* Reads of FILE fail; of no file, without one. */
HARM(unreadable)
{
    if (unreadable)
        io_calls = calls_before;
    unreadable = 0;
    if (s->n < 2)
        return;
    struct stat st = stat_of(path_at(s->word[1]));
    unreadable = st.st_ino;
    calls_before = io_calls;
    io_calls.pread = unreadable_pread;
}

/* ---- the catalog's records ---- */

struct value {
    const char *name;
    const uint8_t *bytes;
    size_t n;
};

/* A listed column gets a record of its own in the place of its bit. */
static int replace_value(struct catalog_txn *t, void *ctx)
{
    const struct value *v = ctx;
    struct listings l;
    struct found f;
    OK(listings_load(&l, t));
    struct piece name = piece_of(v->name);
    int rc = listings_lookup(&l, name, &f);
    if (!rc && !f.value.at) {
        uint32_t column = le32_get(f.column.disk.column);
        OK(listed_set(&l, f.pack, column, false));
        OK(listed_name(&l, f.pack, name, column, true));
        OK(listings_write(&l));
    }
    listings_free(&l);
    return catalog_replace(t, name, (struct piece){v->bytes, v->n});
}

static void put_value(const char *name, const uint8_t *value, size_t n)
{
    struct value v = {name, value, n};
    struct tamis_store *s = opened();
    know_files();
    OK(catalog_write(s->catalog, NULL, 0, replace_value, &v, NULL, NULL));
    if (shop.edits[0])
        return;
    tamis_store_close(s);
    shop.store = NULL;
}

void put_record(const char *name, const struct record *r, size_t rotten_at)
{
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = record_encode(r, name, strlen(name), value);
    if (rotten_at)
        value[rotten_at] ^= 1;
    put_value(name, value, n);
}

/* rot_record NAME keys|uuid */
MUST(rot_record)
{
    struct record r = record_in(opened(), name_at(s, 1));
    put_record(s->word[1], &r,
               name_at(s, 2)[0] == 'k' ? offsetof(struct record_disk, keys)
                                       : offsetof(struct record_disk, uuid) + 3);
}

/* set_record NAME list-of=|uuid-of=|place-of=OTHER
 * keys=|rank=|compat=|ro_compat= rotten */
MUST(set_record)
{
    struct record r = record_in(opened(), name_at(s, 1)), other = r;
    const char *list = option_of(s, "list-of"), *uuid = option_of(s, "uuid-of"),
               *place = option_of(s, "place-of");
    if (list || uuid || place)
        other = record_in(opened(), list ? list : uuid ? uuid : place);
    if (list)
        memcpy(r.list_uuid, other.list_uuid, UUID_BYTES),
            r.list_digest = other.list_digest;
    if (uuid)
        memcpy(r.uuid, other.uuid, UUID_BYTES);
    if (place)
        r.place = other.place;
    if (option_of(s, "keys"))
        r.keys = number_option(s, "keys");
    if (option_of(s, "rank"))
        r.rank = (uint32_t)number_option(s, "rank");
    r.compat |= number_option(s, "compat");
    r.ro_compat |= number_option(s, "ro_compat");
    put_record(s->word[1], &r,
               option_of(s, "rotten") ? offsetof(struct record_disk, keys) : 0);
}

/* move_record FROM TO: under another name; without TO it is removed. */
MUST(move_record)
{
    const char *from = name_at(s, 1);
    struct record r = record_in(opened(), from);
    uint8_t value[RECORD_MAX_BYTES];
    size_t n = record_encode(&r, from, strlen(from), value);
    closed();
    if (!option_of(s, "stays"))
        poke_catalog(shop.dir, "segments", from, NULL, 0);
    if (s->n > 2)
        poke_catalog(shop.dir, "segments", s->word[2], value, n);
}

/* newer_record NAME: with a feature that this version does not know. */
HARM(newer_record)
{
    const struct record r = {.state = RECORD_NO_FILTER, .incompat = UINT64_C(1) << 60};
    put_record(name_at(s, 1), &r, 0);
}

/* part NAME FILE: of a kind that this version does not know, in the record. */
HARM(part)
{
    struct record r = record_in(opened(), name_at(s, 1));
    struct part_disk p = {.kind = 200};
    const char *name = s->word[1], *rest;
    bool dead;
    uint8_t v[RECORD_MAX_BYTES];
    struct record_disk *d = (struct record_disk *)(void *)v;
    size_t n = record_encode(&r, name, strlen(name), v) + sizeof p;
    uint8_t *at = v + sizeof *d + d->n_parts++ * sizeof p;
    assert_true(filter_name_parse(strrchr(path_at(name_at(s, 2)), '/') + 1, p.uuid,
                                  &dead, &rest));
    memmove(at + sizeof p, at, (size_t)(v + n - at) - sizeof p);
    memcpy(at, &p, sizeof p);
    checksum_set(v, n, XXH3_64bits(name, strlen(name)));
    put_value(name, v, n);
}

/* noise FILE PAGE: from there on random bytes. */
HARM(noise)
{
    uint8_t noise[PAGE_BYTES];
    struct stat st = stat_of(path_at(name_at(s, 1)));
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)random_u64();
    for (off_t at = (off_t)number_at(s, 2) * PAGE_BYTES; at < st.st_size;
         at += PAGE_BYTES)
        file_poke(path_at(s->word[1]), (uint64_t)at, noise, sizeof noise);
}

HARM(lose_meta)
{
    poke_catalog(shop.dir, "meta", "store", NULL, 0);
}

/* rubbish DB KEY: a value of a few bytes. */
HARM(rubbish)
{
    poke_catalog(shop.dir, name_at(s, 1), name_at(s, 2), "rubbish", 7);
}

/* noise_meta: a meta record of the right length that is none. */
HARM(noise_meta)
{
    uint8_t noise[META_BYTES] = {1, 2, 3};
    poke_catalog(shop.dir, "meta", "store", noise, sizeof noise);
}

static int mark_in(struct catalog_txn *t, void *ctx)
{
    struct piece value;
    uint8_t bytes[META_BYTES];
    OK(catalog_meta_value(t, &value));
    memcpy(bytes, value.at, value.n);
    value.at = bytes;
    bytes[*(const size_t *)ctx + 5] |= 1;
    bytes[offsetof(struct meta_disk, unused)] = 77;
    checksum_set(bytes, value.n, 0);
    return catalog_put_in(t, CATALOG_META, piece_of("store"), value);
}

/* mark_meta compat|ro_compat|incompat: as a newer version, in another process, marks a
 * store that we have open: with a bit, and a byte that it speaks of. */
MUST(mark_meta)
{
    char word = name_at(s, 1)[0];
    size_t at = word == 'c'   ? offsetof(struct meta_disk, compat)
                : word == 'r' ? offsetof(struct meta_disk, ro_compat)
                              : offsetof(struct meta_disk, incompat);
    OK(catalog_write(opened()->catalog, NULL, 0, mark_in, &at, NULL, NULL));
}

HARM(rot_meta)
{
    struct meta m = meta_in(shop.dir);
    uint8_t bytes[META_BYTES];
    meta_encode(&m, bytes);
    bytes[100] ^= 1;
    poke_catalog(shop.dir, "meta", "store", bytes, sizeof bytes);
}

/* meta [complete=] [major=] [ro_compat=] [incompat=] */
HARM(meta)
{
    struct meta m = meta_in(shop.dir);
    if (option_of(s, "complete"))
        m.complete = (uint8_t)number_option(s, "complete");
    if (option_of(s, "major"))
        m.major = (uint16_t)number_option(s, "major");
    m.ro_compat |= number_option(s, "ro_compat");
    m.incompat |= number_option(s, "incompat");
    put_meta(shop.dir, &m);
}
