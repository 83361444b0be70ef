/* Which segments a damaged page of a pack costs, and a damaged record. */
#include "tests/support/store_packs.h"

enum { N = 20 };

/* Each page of a pack in turn is damaged, and all are checked: segments whose band has
 * rows there have a damaged page, and no others. */
TEST_IN_DIR(damaged_pages_have_their_segments)
{
    struct tamis_pack_place place;
    struct tamis_filter *pack;
    struct tamis_verify all, own;
    STORE s = store_of("s", N, 1500);
    pack_all(s);
    file_copy(pack_file(), path_of("good"));
    struct commit c = commit_of(pack_file());
    uint64_t first = c.stages[PACK_ROWS].offset;
    uint64_t last = first + c.stages[PACK_ROWS].length;
    for (uint64_t at = first; at < last; at += PAGE_BYTES) {
        size_t n_affected = 0;
        file_copy(path_of("good"), pack_file());
        zero_page(pack_file(), at / PAGE_BYTES);
        tamis_store_close(s);
        s = store_open("s");
        SNAPSHOT snap = snapshot_of(s);
        OK(tamis_snapshot_pack(snap, 0, &pack, NULL, NULL));
        tamis_filter_verify(pack, &all, NULL);
        uint32_t n_bands;
        const struct band *bands = pack_bands(pack, &n_bands);
        for (size_t i = 0; i < N; i++) {
            OK(tamis_snapshot_pack(snap, i, NULL, &place, NULL));
            OK(tamis_snapshot_pack(snap, i, NULL, NULL, &own));
            const struct band *b = &bands[place.band];
            uint64_t begin = first + b->rows_offset;
            uint64_t end = begin + (uint64_t)b->geometry.lanes * b->geometry.n_blocks *
                                       BLOCK_BITS * b->row_bytes;
            bool hit = all.n_damaged && begin < at + PAGE_BYTES && at < end;
            IS(own.n_damaged, hit);
            assert_true(!hit || own.first_damaged == at);
            n_affected += hit;
        }
        assert_true(!all.n_damaged || n_affected > 0);
    }
    SNAPSHOT snap = snapshot_of(s);
    IS(tamis_snapshot_pack(snap, N, NULL, NULL, &own), TAMIS_ERR_RANGE);
    IS(tamis_snapshot_pack(NULL, 0, NULL, NULL, &own), TAMIS_ERR_RANGE);
}

RUN_TESTS(NULL, NULL)
