/* A program as a user of the installed library has it, C and C++ alike: use DIR makes a
 * store there with one segment, and asks it by calls and inline. */
#include <stdio.h>
#include <string.h>

#include <tamis_inline.h>

static int check(int err, const struct tamis_diag *diag)
{
    if (err != 0)
        fprintf(stderr, "%s: %s: %s\n", tamis_strerror(err), diag->file, diag->what);
    return err;
}

static int fill(struct tamis_store *store, const char *key, struct tamis_diag *diag)
{
    struct tamis_builder *builder = NULL;
    struct tamis_edit *edit = NULL;
    int err = tamis_edit_begin(store, NULL, &edit, diag);

    if (err == 0)
        err = tamis_edit_builder(edit, "segment", 7, 0.01, NULL, &builder, diag);
    if (err == 0)
        err = tamis_builder_add_key(builder, key, strlen(key));
    if (err == 0)
        err = tamis_edit_put(edit, builder, NULL, diag);
    tamis_builder_free(builder);
    if (err == 0)
        return tamis_edit_commit(edit, diag);
    tamis_edit_abort(edit);
    return err;
}

/* Asks the only segment for n hashes; how many are MAYBE? */
static int n_maybe(struct tamis_snapshot *now, uint64_t tag, int n,
                   struct tamis_key *key)
{
    struct tamis_target segment = tamis_snapshot_target(now, 0);
    struct tamis_inline value;
    int i, n_maybe = 0;

    if (tamis_snapshot_inline(now, &segment, TAMIS_INLINE_VERSION, &value) != 0)
        return -1;
    for (i = 0; i < n; i++) {
        struct tamis_key other = {NULL, 0, (uint64_t)i << 40, tag};
        if (tamis_inline_probe(&value, i == 0 ? key : &other, NULL) == TAMIS_MAYBE)
            n_maybe++;
    }
    if (!tamis_inline_is_quick(&value, tag))
        n_maybe = -1;
    tamis_inline_release(&value);
    return n_maybe;
}

int main(int argc, char **argv)
{
    struct tamis_diag diag;
    struct tamis_store *store = NULL;
    struct tamis_snapshot *now = NULL;
    struct tamis_domain domain;
    struct tamis_key keys[2];
    struct tamis_query query;
    struct tamis_open_options create = {sizeof(create), TAMIS_CREATE_NEW, 0,   NULL,
                                        NULL,           {0, 0, 0, 0},     NULL};
    uint64_t lacking;
    int right;

    memset(&diag, 0, sizeof(diag));
    if (argc != 2 ||
        check(tamis_store_open(argv[1], &create, &store, &diag), &diag) != 0 ||
        check(fill(store, "apple", &diag), &diag) != 0 ||
        check(tamis_snapshot_current(store, &now, &diag), &diag) != 0)
        return 2;
    domain = tamis_store_domain(store);
    keys[0] = tamis_key_of(&domain, "apple", 5);
    keys[1] = tamis_key_of(&domain, "pear", 4);
    memset(&query, 0, sizeof(query));
    query.size = sizeof(query);
    query.all = 1;
    query.keys = keys;
    query.n_keys = 2;
    query.absent_from_all = &lacking;
    /* Outside the range of the segment's keys, whatever the bits say. */
    right = tamis_snapshot_query(now, &query, NULL) == 1 && lacking == 2 &&
            n_maybe(now, domain.tag, 64, &keys[0]) == 1;
    printf("%s %s\n", tamis_version(), right ? "right" : "wrong");
    tamis_snapshot_release(now);
    tamis_store_close(store);
    return right ? 0 : 3;
}
