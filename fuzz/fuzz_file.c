/* Whole files through the public calls: open in every mode, ask, describe, verify,
 * print, write. The bytes are hostile and their checksums right. So the library must
 * live, end, say the same of one file in every call, and never lose a key that it has
 * just accepted.
 *
 * Input: four bytes of control (mode, actions, place, size), then the filter. */
#include "fuzz/fuzz.h"

enum { CONTROL = 4, N_HASHES = 96, MAX_LEAD = 3 };
enum { DO_FULL = 1, DO_FIELDS = 2, DO_WRITE = 4, DO_SEAL = 8, DO_SPARSE = 16 };

static void field_seen(void *ctx, const struct tamis_field *field)
{
    size_t *n = ctx;
    MUST(field->record && field->name && field->text);
    MUST(strlen(field->text) < 1100);
    ++*n;
}

static void check_diag(int err, const struct tamis_diag *diag)
{
    MUST(diag->code == err);
    MUST((err != 0) == (diag->what[0] != 0));
    MUST(strcmp(tamis_strerror(err), "unknown error") != 0);
}

/* ---- reading ---- */

static void check_info(struct tamis_filter *f)
{
    struct tamis_filter_info info;
    MUST(tamis_filter_info(f, &info, NULL) == 0);
    MUST(info.n_stages >= 1 && info.n_stages <= 30);
    MUST(info.expected_error >= 0 && info.expected_error <= 1.0000001);
    for (uint32_t i = 0; i < info.n_stages; i++) {
        const struct tamis_stage_info *s = &info.stages[i];
        MUST(s->offset + s->bits_bytes <= info.file_bytes);
        MUST(s->expected_error >= 0 && s->expected_error <= 1);
    }
}

/* One by one and in a batch, twice: the same answers, and a reason with each. */
static void check_answers(struct tamis_filter *f, uint64_t *rng)
{
    uint64_t hashes[N_HASHES], absent[2][(N_HASHES + 63) / 64], tag;
    size_t n_absent = 0;
    struct tamis_filter_info info;
    MUST(tamis_filter_info(f, &info, NULL) == 0);
    tag = info.domain.tag;
    for (size_t i = 0; i < N_HASHES; i++)
        hashes[i] = i < 8 ? (i % 2 ? UINT64_MAX : 0) >> (i * 7) : draw(rng);
    for (int k = 0; k < 2; k++)
        n_absent = tamis_filter_probe_batch(f, tag, hashes, N_HASHES, absent[k], NULL);
    MUST(memcmp(absent[0], absent[1], sizeof absent[0]) == 0);
    for (size_t i = 0; i < N_HASHES; i++) {
        struct tamis_key key = {.tag = tag, .hash = hashes[i]};
        enum tamis_reason why;
        bool is_absent = tamis_filter_probe(f, &key, &why) == TAMIS_ABSENT;
        MUST(is_absent == (absent[0][i / 64] >> (i % 64) & 1));
        MUST(is_absent == (why == TAMIS_NO_REASON));
        n_absent -= is_absent;
        key.tag++;
        MUST(tamis_filter_probe(f, &key, &why) == TAMIS_MAYBE && why == TAMIS_MISMATCH);
    }
    MUST(n_absent == 0);
}

static void check_verify(struct tamis_filter *f)
{
    struct tamis_verify report;
    struct tamis_diag diag;
    int err = tamis_filter_verify(f, &report, &diag);
    check_diag(err, &diag);
    MUST(err == 0 || err == TAMIS_ERR_DAMAGED);
    MUST((err != 0) == (report.n_damaged || report.n_stale_slots));
    MUST(report.n_damaged <= report.n_pages);
}

static int read_it(int fd, uint64_t offset, uint64_t limit, enum tamis_check mode,
                   bool verify, uint64_t *rng)
{
    struct tamis_filter_options opt = {.size = sizeof opt,
                                       .check = mode,
                                       .fd = fd,
                                       .offset = offset,
                                       .n_bytes = limit};
    struct tamis_filter *f;
    struct tamis_diag diag;
    int err = tamis_filter_open(NULL, &opt, &f, &diag);
    check_diag(err, &diag);
    MUST((f == NULL) == (err != 0));
    if (err)
        return err;
    check_answers(f, rng);
    check_info(f);
    if (verify)
        check_verify(f);
    tamis_filter_close(f);
    return 0;
}

/* ---- writing ---- */

static bool still_there(const uint64_t *hashes, size_t n)
{
    struct tamis_filter *f;
    struct tamis_filter_info info;
    size_t lost = 0;
    if (tamis_filter_open(memory_path(), NULL, &f, NULL) != 0 ||
        tamis_filter_info(f, &info, NULL) != 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct tamis_key key = {.tag = info.domain.tag, .hash = hashes[i]};
        lost += tamis_filter_probe(f, &key, NULL) == TAMIS_ABSENT;
    }
    tamis_filter_close(f);
    return lost == 0;
}

static void write_it(bool seal, uint64_t *rng)
{
    struct tamis_writer *w;
    struct tamis_diag diag;
    struct tamis_filter_info info;
    uint64_t hashes[200], n_damaged;
    int err = tamis_writer_open(memory_path(), NULL, &w, &diag);
    check_diag(err, &diag);
    if (err)
        return;
    for (size_t i = 0; i < 200; i++)
        hashes[i] = draw(rng);
    MUST(tamis_writer_info(w, &info, NULL) == 0);
    MUST(tamis_writer_add_hashes(w, info.domain.tag, hashes, 200) == 0);
    MUST(still_there(hashes, 200));
    uint64_t mark = info.watermark;
    err = seal ? tamis_writer_seal(w, mark, &n_damaged, &diag)
               : tamis_writer_commit(w, mark, &diag);
    check_diag(err, &diag);
    if (!err) {
        MUST(still_there(hashes, 200));
    }
    tamis_writer_close(w, NULL);
}

/* ---- one input ---- */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const uint8_t lead[MAX_LEAD * PAGE_BYTES];
    static bool calm;
    if (!calm)
        fuzz_calm_io(), calm = true;
    fuzz_restart();
    if (n < CONTROL)
        return 0;
    enum tamis_check mode = data[0] % 4;
    uint8_t todo = data[1];
    uint64_t rng = data[3], offset = 0, limit = 0;
    int fd;
    if (data[2] % 4 && !(todo & (DO_WRITE | DO_SPARSE))) {
        /* Inside another file, between other things. */
        static uint8_t embedded[1 << 17];
        offset = (uint64_t)(data[2] % 4) * PAGE_BYTES;
        limit = n - CONTROL;
        size_t total = (size_t)(offset + limit) + 1000;
        MUST(total <= sizeof embedded);
        memset(embedded, 0xA5, total);
        memcpy(embedded, lead, (size_t)offset);
        memcpy(embedded + offset, data + CONTROL, n - CONTROL);
        fd = memory_file(embedded, total);
    } else {
        fd = memory_file(data + CONTROL, n - CONTROL);
    }
    bool sparse = todo & DO_SPARSE;
    if (sparse)
        MUST(ftruncate(fd, (off_t)1 << (20 + data[2] % 17)) == 0);

    int err = read_it(fd, offset, limit, sparse && mode == TAMIS_CHECK_FULL ? 0 : mode,
                      !sparse && todo & DO_FULL, &rng);
    /* A mode decides what is checked when, not whether there is a filter. */
    if (mode != TAMIS_CHECK_FULL)
        MUST(read_it(fd, offset, limit, (mode + 2) % 4 ? TAMIS_CHECK_STRICT : 0, false,
                     &rng) == err);
    if (todo & DO_FIELDS) {
        size_t n_fields = 0;
        struct tamis_diag diag;
        int shown =
            tamis_file_fields(memory_path(), offset, field_seen, &n_fields, &diag);
        check_diag(shown, &diag);
        MUST(shown == TAMIS_ERR_NOT_TAMIS || n_fields > 0);
    }
    if (todo & DO_WRITE && !sparse)
        write_it(todo & DO_SEAL, &rng);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    uint64_t rng = seed;
    if (n < CONTROL + IDENTITY_BYTES)
        return LLVMFuzzerMutate(data, n, max);
    if (draw_below(&rng, 3) == 0)
        data[draw_below(&rng, CONTROL)] = (uint8_t)draw(&rng);
    uint8_t *file = data + CONTROL;
    size_t n_file = n - CONTROL;
    switch (draw_below(&rng, 8)) {
    case 0: /* one page, or the rest of one */
        if (n_file > PAGE_BYTES) {
            uint64_t page = draw_below(&rng, n_file / PAGE_BYTES);
            LLVMFuzzerMutate(file + page * PAGE_BYTES, PAGE_BYTES, PAGE_BYTES);
        }
        break;
    case 1: /* cut, or grown by zeros */
        n_file = draw_below(&rng, 2) ? draw_below(&rng, n_file + 1) & ~(size_t)511
                                     : n_file + PAGE_BYTES;
        if (n_file > max - CONTROL)
            n_file = max - CONTROL;
        if (n_file + CONTROL > n)
            memset(data + n, 0, n_file + CONTROL - n);
        break;
    default:
        mutate_header(file, n_file, &rng);
        break;
    }
    if (n_file >= IDENTITY_BYTES) {
        if (draw_below(&rng, 4))
            reseal_floors(file, n_file);
        if (draw_below(&rng, 4))
            reseal_digests(file, n_file);
        if (draw_below(&rng, 16))
            reseal_header(file, n_file);
    }
    return CONTROL + n_file;
}
