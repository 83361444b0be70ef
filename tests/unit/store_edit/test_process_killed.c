/* Readers that ask all along while a writer works and is killed again and again. All of
 * them are processes: this program runs itself with an argument. */
#include "tests/unit/store_edit/process_support.h"

/* ---- the reader ---- */

static enum tamis_answer ask_base(struct tamis_store *s, uint64_t i)
{
    SNAPSHOT snap;
    struct tamis_target t;
    MUST(tamis_snapshot_current(s, &snap, NULL));
    MUST(tamis_snapshot_find(snap, "base", 4, NULL, 0, 0, &t));
    struct tamis_key key = key_in(s, i);
    enum tamis_answer a = tamis_snapshot_probe(snap, &t, &key, NULL);
    return a;
}

static void count(_Atomic uint64_t *n, bool yes)
{
    if (yes)
        atomic_fetch_add(n, 1);
}

/* First it learns what is announced, then it takes a snapshot: nothing announced may
 * be absent from that. */
static int be_reader(struct shared *shared)
{
    STORE s;
    MUST(tamis_store_open(path_of("s"), NULL, &s, NULL));
    random_state = (uint64_t)getpid();
    while (!shared->stop) {
        uint64_t n = shared->n_added, n_base = shared->n_base;
        if (n)
            count(&shared->n_lost, ask_all(s, n - 1 - random_below(n)) == TAMIS_ABSENT);
        if (n)
            count(&shared->n_lost, ask_all(s, n - 1) == TAMIS_ABSENT);
        if (n_base)
            count(&shared->n_lost, ask_base(s, random_below(n_base)) == TAMIS_ABSENT);
        count(&shared->n_absent,
              ask_all(s, 1000000000 + random_below(1000000)) == TAMIS_ABSENT);
        count(&shared->n_stranger, true);
        atomic_fetch_add(&shared->n_asked, n ? 3 : 1);
    }
    return 0;
}

/* ---- the writer: "g<n>" holds keys from n * PER_SEGMENT on, "m<a>-<b>" merges ---- */

enum { PER_SEGMENT = 700 };

struct plan {
    struct tamis_store *store;
    struct shared *shared;
    unsigned growing; /* number of the newest g */
    bool has_growing, sealed;
    unsigned merged; /* g's below are merged into m0-<merged> */
    char merged_name[32];
};

/* The catalog itself says how far the last writer came. */
static void look_around(struct plan *p)
{
    SNAPSHOT snap;
    struct tamis_segment_info info;
    char name[TAMIS_NAME_MAX + 1];
    unsigned a, b;
    MUST(tamis_snapshot_current(p->store, &snap, NULL));
    for (size_t i = 0; tamis_snapshot_segment(snap, i, &info) == 0; i++) {
        memcpy(name, info.name, info.name_bytes);
        name[info.name_bytes] = 0;
        if (sscanf(name, "g%u", &a) == 1 && (!p->has_growing || a >= p->growing)) {
            p->has_growing = true;
            p->growing = a;
            p->sealed = info.state == TAMIS_SEGMENT_SEALED;
        }
        if (sscanf(name, "m%u-%u", &a, &b) == 2) {
            p->merged = b;
            strcpy(p->merged_name, name);
        }
    }
}

static void begin_segment(struct plan *p)
{
    char name[32];
    struct tamis_edit *e;
    snprintf(name, sizeof name, "g%u", p->growing);
    MUST(tamis_edit_begin(p->store, NULL, &e, NULL));
    MUST(tamis_edit_put_growing(e, name, strlen(name), NULL, NULL, NULL));
    MUST(tamis_edit_commit(e, NULL));
}

static void fill_segment(struct plan *p)
{
    char name[32];
    struct tamis_writer *w;
    snprintf(name, sizeof name, "g%u", p->growing);
    int rc = tamis_store_writer(p->store, name, strlen(name), NULL, &w, NULL);
    if (rc == TAMIS_ERR_SEALED)
        return; /* the last one died between the seal and its record */
    MUST(rc);
    uint64_t end = (uint64_t)(p->growing + 1) * PER_SEGMENT;
    while (p->shared->n_added < end) {
        uint64_t k = p->shared->n_added;
        MUST(tamis_writer_add_key(w, key_text(k), strlen(key_text(k))));
        p->shared->n_added = k + 1;
        if (k % 100 == 0)
            MUST(tamis_writer_commit(w, k, NULL));
    }
    MUST(tamis_writer_seal(w, end, NULL, NULL));
    MUST(tamis_writer_close(w));
    p->shared->n_seals++;
}

/* A compaction: all sealed segments become one, and "base" is replaced by itself with
 * more keys, all in one edit. */
static void merge(struct plan *p)
{
    char name[32];
    struct tamis_edit *e;
    uint64_t n = (uint64_t)(p->growing + 1) * PER_SEGMENT;
    MUST(tamis_edit_begin(p->store, NULL, &e, NULL));
    if (p->merged_name[0])
        MUST(tamis_edit_drop(e, p->merged_name, strlen(p->merged_name), NULL));
    for (unsigned i = p->merged; i <= p->growing; i++) {
        snprintf(name, sizeof name, "g%u", i);
        MUST(tamis_edit_drop(e, name, strlen(name), NULL));
    }
    snprintf(p->merged_name, sizeof p->merged_name, "m0-%u", p->growing + 1);
    put_range(e, p->merged_name, n);
    MUST(tamis_edit_drop(e, "base", 4, NULL));
    put_range(e, "base", n);
    MUST(tamis_edit_commit(e, NULL));
    p->merged = p->growing + 1;
    p->shared->n_base = n;
    p->shared->n_merges++;
}

static int be_writer(struct shared *shared)
{
    struct plan p = {.shared = shared};
    MUST(tamis_store_open(path_of("s"), NULL, &p.store, NULL));
    look_around(&p);
    if (!p.has_growing) {
        p.growing = p.merged;
        begin_segment(&p);
    } else if (p.sealed && p.growing < p.merged + 2) {
        p.growing++;
        begin_segment(&p);
    }
    while (!shared->stop) {
        fill_segment(&p);
        if (p.growing + 1 >= p.merged + 3)
            merge(&p);
        p.growing++;
        begin_segment(&p);
    }
    tamis_store_close(p.store);
    return 0;
}

TEST_IN_DIR(nobody_loses_a_key)
{
    const unsigned n_lives = by_form(6, 12);
    pid_t reader[2], writer = 0;
    struct shared *shared = share();
    struct tamis_store *s = store_new("s");
    put_segment(s, "base", 0, 0);
    for (int i = 0; i < 2; i++)
        reader[i] = run("reader", "");
    for (unsigned i = 1; i <= n_lives; i++) {
        writer = run("writer", "");
        sleep_ms(110 + 40 * i);
        OK(kill(writer, i < n_lives ? SIGKILL : 0));
        if (i < n_lives)
            IS(wait_for(writer), 1000 + SIGKILL);
    }
    /* On a slow disk the short lives did little: the last one is as long as it takes.
     */
    wait_until(&shared->n_seals, 3);
    wait_until(&shared->n_merges, 1);
    wait_until(&shared->n_stranger, 101);
    shared->stop = 1;
    IS(wait_for(writer), 0);
    IS(wait_for(reader[0]), 0);
    IS(wait_for(reader[1]), 0);
    print_message("%d keys, %d seals, %d merges; %d questions, %d lost\n",
                  (int)shared->n_added, (int)shared->n_seals, (int)shared->n_merges,
                  (int)shared->n_asked, (int)shared->n_lost);
    IS(shared->n_lost, 0);
    /* The readers were not merely told MAYBE all the time. */
    assert_true(shared->n_absent > shared->n_stranger / 2);
    for (uint64_t i = 0; i < shared->n_added; i++)
        IS(ask_all(s, i), TAMIS_MAYBE);
    tamis_store_close(s);
    munmap(shared, 4096);
}

static int be(char **argv)
{
    become(argv);
    return strcmp(argv[1], "reader") == 0 ? be_reader(share()) : be_writer(share());
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return be(argv);
    return run_listed_tests(NULL, NULL);
}
