/* Segments with ribbon filters: beside others in every probe, attached, left out of
 * packs, refused by the algebra, backed up, and listed by a repair. */
#include "tests/support/shop/shop.h"

enum { N = 3000 };

static void check_abc(struct tamis_store *s)
{
    SNAPSHOT snap = snapshot_of(s);
    struct tamis_target t;
    uint64_t n_absent = 0;
    enum { AT_ONCE = 100 };
    struct tamis_key keys[AT_ONCE];
    tamis_snapshot_find(snap, "b", 1, NULL, 0, 0, &t);
    for (uint64_t i = 0; i < 3 * N; i += AT_ONCE) {
        uint64_t absent[AT_ONCE]; /* a row of one word for each key */
        for (uint64_t k = 0; k < AT_ONCE; k++) {
            keys[k] = key_in(s, i + k);
            keys[k].bytes = NULL; /* no range helps */
            bool in_b = i >= N && i < 2 * N, all;
            bool is = tamis_snapshot_probe(snap, &t, &keys[k], NULL) == TAMIS_ABSENT;
            all = tamis_snapshot_probe_all(snap, &keys[k], NULL, NULL) == TAMIS_ABSENT;
            assert_false(all || (in_b && is));
            n_absent += is;
        }
        tamis_snapshot_probe_keys(snap, &t, 1, keys, AT_ONCE, absent);
        for (uint64_t k = 0; k < AT_ONCE; k++)
            IS(absent[k] & 1,
               tamis_snapshot_probe(snap, &t, &keys[k], NULL) == TAMIS_ABSENT);
    }
    assert_true(n_absent > 2 * N * 95 / 100);
    for (uint64_t i = 3 * N; i < 3 * N + 500; i++) {
        struct tamis_key key = key_in(s, i);
        n_absent += tamis_snapshot_probe_all(snap, &key, NULL, NULL) == TAMIS_ABSENT;
    }
    assert_true(n_absent > 2 * N * 95 / 100 + 450);
}

/* "a" and "c" are Bloom filters, "b" is a ribbon. */
static void scene_of_abc(const char *name)
{
    scene(name);
    steps("put a 0 3000; put c 6000 3000; put b 3000 3000 kind=ribbon");
}

TEST_OF_SCENES(ribbons)
{
    scene_of_abc("they answer beside others");
    check_abc(opened());
    check_abc(shop.store); /* all pages are good by now */
    steps("close");
    check_abc(opened());
    scene_of_abc("a damaged one says so");
    steps("zero b 1; hits b 0 9000 DAMAGED");
    scene_of_abc("they are left out of packs");
    steps("pack; is packed=2 ribbons=1");
    check_abc(shop.store);
    scene_of_abc("attached and backed up");
    steps("copy b =b.tamis; drop b; attach b =b.tamis");
    check_abc(shop.store);
    steps("backup copy; use copy");
    check_abc(opened());
    scene_of_abc("a repair lists them");
    steps("lose catalog; repair; has a 0 3000; has b 3000 3000; confirm");
    check_abc(shop.store);
}

RUN_TESTS(NULL, NULL)
