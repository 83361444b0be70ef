/* Targets in no order: all in stripes, all loose ones, or both are asked, into rows of
 * bits of their own, where each target then finds its bit. The rows of many keys are
 * turned first, so that one look at a target answers for all of them:
 *
 *     number          0 1 2 3 ...                 key     0 1 ...
 *     key 0 absent    0 0 1 0 ...     number 0            0 1 ...   <-- target 0
 *     key 1 absent    1 1 0 1 ...     number 1            0 1 ...
 *     ...                             number 2            1 0 ...   <-- target 2
 *
 * A number has a byte for few keys, and a word for many. Few targets among many numbers
 * are marked first: hits of others are not looked at. If nobody asks which may have a
 * key, all targets are marked, and asked in the order of numbers.
 *
 * The list may be much longer than all rows: each pass over it counts. Warning: targets
 * that lie nowhere in these rows are asked during the first pass, and only then. */
#include "lib/store/query/inside.h"
#include "lib/io/io.h"

#include <endian.h>
#include <sys/mman.h>

enum {
    ROOM_WORDS = 1600,    /* for rows, on the stack, */
    MOST_WORDS = 1 << 21, /* and elsewhere, but for marks and a row */
    BYTE_KEYS = 8,        /* have a bit each in a byte */
    MANY_TARGETS = 512,   /* are worth more room than is on the stack */
    A_TURN = 1024,        /* of them take as long as a square that is turned */
};

struct page {
    size_t first, n;               /* the numbers in rows, */
    size_t from, n_keys, max_keys; /* and the keys */
    size_t n_words; /* of a row, an odd number of lines: they shall not evict others */
    bool turned;    /* word n / 64 of row n % 64 is number n's: a bit for each key */
    uint64_t *rows;
    uint8_t *bytes;  /* of each number, a bit for each key; NULL: keys are too many */
    uint64_t *marks; /* numbers that are asked, from one on; NULL: all are */
    size_t marks_from;
};

/* The lines of a row that marks numbers, with one word before and two behind them. */
static inline size_t words_to_mark(const struct page *p)
{
    return (bit_words(p->n) + 3 + WORDS_PER_BLOCK - 1) / WORDS_PER_BLOCK *
           WORDS_PER_BLOCK;
}

/* ---- rows ---- */

/* Asks keys, as many as there is room for. */
static void ask_page(const struct asking *a, struct page *p)
{
    struct asking b = *a;
    b.reasons = NULL;
    b.each_hit = false;
    b.n_words = p->n_words;
    b.n = a->n - p->from < p->max_keys ? a->n - p->from : p->max_keys;
    b.keys = a->keys + p->from;
    b.hash = a->hash + p->from;
    b.prefix = a->prefix + p->from;
    b.plain = b.all = first_bits(b.n);
    b.ranged = a->ranged >> p->from & b.all;
    b.rows = p->rows;
    b.listed = p->marks;
    b.listed_from = p->marks_from;
    p->n_keys = b.n;
    memset(p->rows, 0, (p->turned ? WORD : b.n) * p->n_words * sizeof *p->rows);
    ask_numbers(&b, 0, p->first, p->n);
}

static void turn_rows(const struct kernel *kernel, const struct page *p)
{
    _Alignas(BLOCK_BYTES) uint64_t square[WORD][WORDS_PER_BLOCK];
    for (size_t at = 0; at < bit_words(p->n); at += WORDS_PER_BLOCK) {
        for (size_t i = 0; i < WORD; i++) {
            const uint64_t *row = p->rows + i * p->n_words + at;
            for (size_t k = 0; k < WORDS_PER_BLOCK; k++)
                square[i][k] = htole64(row[k]);
        }
        kernel->transpose(square);
        for (size_t i = 0; i < WORD; i++)
            memcpy(p->rows + i * p->n_words + at, square[i], sizeof square[i]);
    }
}

/* A square of bits: Warren, Hacker's Delight (2nd ed.), section 7-3. */
static inline uint64_t turn_byte_square(uint64_t x)
{
    uint64_t t = (x ^ x >> 7) & 0x00aa00aa00aa00aa;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000cccc0000cccc;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000f0f0f0f0;
    return x ^ t ^ t << 28;
}

static void turn_into_bytes(const struct page *p)
{
    for (size_t at = 0; at < bit_words(p->n); at++)
        for (size_t i = 0; i < WORD; i += BYTE_KEYS) {
            uint64_t x = 0;
            for (size_t k = 0; k < p->n_keys; k++)
                x |= (p->rows[k * p->n_words + at] >> i & 0xff) << k * BYTE_KEYS;
            x = htole64(turn_byte_square(x));
            memcpy(p->bytes + at * WORD + i, &x, sizeof x);
        }
}

/* ---- targets ---- */

/* Which of n targets, at most 64, lie on this page, and where? The others get place 0,
 * and are asked if they still are to be. */
static inline uint64_t find_targets(struct asking *a, const struct page *p, size_t at,
                                    size_t n, uint32_t *place, bool ask)
{
    const struct tamis_target *t = a->q->targets + at;
    uint64_t here = 0;
    if (places_among(a->snapshot, t, n, p->first, p->n, place))
        return first_bits(n);
    for (size_t i = 0; i < n; i++) {
        bool on = plain_between(a->snapshot, &t[i], p->first, p->first + p->n);
        here |= (uint64_t)on << i;
        place[i] = on ? place[i] : 0;
    }
    if (ask)
        ask_slice(a, at, n, here | ask_columns_apart(a, at, n, here));
    return here;
}

/* Tells why key i may be in hits among targets from a place on. Returns those that are
 * absent after all. */
static uint64_t look_again(struct asking *a, size_t i, size_t at, uint64_t hits)
{
    uint64_t absent = 0;
    for (; hits; hits &= hits - 1) {
        size_t k = at + (size_t)__builtin_ctzll(hits);
        if (ask_with_care(a, &a->q->targets[k], k, UINT64_C(1) << i))
            absent |= hits & -hits;
    }
    return absent;
}

/* The bits of a few keys at n places, at most 64: n squares are turned. */
static inline void look_up_bytes(const struct page *p, const uint32_t *place, size_t n,
                                 uint64_t absent[BYTE_KEYS])
{
    uint8_t of_targets[WORD] = {0}, of_keys[BYTE_KEYS][WORD / 8] = {{0}};
    uint64_t x;
    for (size_t i = 0; i < n; i++)
        of_targets[i] = p->bytes[place[i]];
    for (size_t i = 0; i * 8 < n; i++) {
        memcpy(&x, &of_targets[i * 8], sizeof x);
        x = turn_byte_square(le64toh(x));
        for (size_t k = 0; k < p->n_keys; k++, x >>= 8)
            of_keys[k][i] = (uint8_t)x;
    }
    for (size_t k = 0; k < p->n_keys; k++) {
        memcpy(&x, of_keys[k], sizeof x);
        absent[k] = le64toh(x);
    }
}

/* Up to 64 targets, key by key. */
static void look_up_slice(struct asking *a, const struct page *p, size_t at, size_t n)
{
    struct slice t;
    uint32_t place[WORD];
    uint64_t found[BYTE_KEYS];
    slice_begin(&t, a, at, n);
    t.asked = find_targets(a, p, at, n, place, !p->from);
    if (p->bytes)
        look_up_bytes(p, place, n, found);
    for (size_t k = 0; k < p->n_keys; k++) {
        uint64_t absent =
            t.asked &
            (p->bytes ? found[k] : look_up(p->rows + k * p->n_words, place, n));
        uint64_t late = 0;
        if (a->reasons)
            late = look_again(a, p->from + k, at, t.asked & ~absent);
        deliver(a, p->from + k, &t, absent | late, 0, absent);
    }
}

/* Up to 512 targets, all keys: words of numbers are turned back to rows. */
static void look_up_square(struct asking *a, const struct page *p, size_t at, size_t n)
{
    _Alignas(BLOCK_BYTES) uint64_t square[WORD][WORDS_PER_BLOCK] = {{0}};
    uint64_t here[WORDS_PER_BLOCK];
    uint32_t place[WORD];
    for (size_t k = 0; k < bit_words(n); k++) {
        size_t some = n - k * WORD < WORD ? n - k * WORD : WORD;
        here[k] = find_targets(a, p, at + k * WORD, some, place, !p->from);
        for (size_t i = 0; i < some; i++)
            square[i][k] = p->rows[place[i] % WORD * p->n_words + place[i] / WORD];
    }
    a->snapshot->planes.kernel->transpose(square);
    for (size_t i = 0; i < a->n; i++) {
        uint64_t *row = a->rows + i * a->n_words, hits = 0;
        for (size_t k = 0; k < bit_words(n); k++) {
            uint64_t absent = le64toh(square[i][k]) & here[k];
            hits |= absent ^ here[k];
            if (at % WORD)
                put_bits(row, (ptrdiff_t)(at + k * WORD), absent);
            else if (absent)
                row[at / WORD + k] |= absent;
        }
        a->some |= (uint64_t)(hits != 0) << i;
    }
}

static void look_up_all(struct asking *a, struct page *p, size_t at, size_t n)
{
    size_t step = p->turned ? WORD * WORDS_PER_BLOCK : WORD;
    if (p->turned)
        turn_rows(a->snapshot->planes.kernel, p);
    if (p->bytes)
        turn_into_bytes(p);
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < step ? n - i : step;
        if (p->turned)
            look_up_square(a, p, at + i, some);
        else
            look_up_slice(a, p, at + i, some);
    }
}

/* ---- marks ---- */

/* `ask`: targets that lie elsewhere are asked now. */
static void mark_targets(struct asking *a, struct page *p, size_t at, size_t n,
                         bool ask)
{
    size_t shift = WORD + p->first % WORD; /* columns' words may begin before them */
    p->marks_from = p->first - shift;      /* both wrap */
    memset(p->marks, 0, words_to_mark(p) * sizeof *p->marks);
    for (size_t i = 0, some; i < n && !is_told(a); i += some) {
        uint32_t place[WORD];
        some = n - i < WORD ? n - i : WORD;
        uint64_t here = find_targets(a, p, at + i, some, place, ask);
        for (size_t k = 0; k < some; k++)
            p->marks[(place[k] + shift) / WORD] |= (here >> k & 1)
                                                   << (place[k] + shift) % WORD;
    }
}

/* If nobody asks which, the order of the list does not count. */
static void ask_marked(struct asking *a, struct page *p, size_t at, size_t n)
{
    mark_targets(a, p, at, n, true);
    a->listed = p->marks;
    a->listed_from = p->marks_from;
    if (numbers_alive(a, p->first, p->n) < p->n)
        a->some = a->all; /* nothing answers for one of them */
    else if (!is_told(a))
        ask_numbers(a, 0, p->first, p->n);
    a->listed = NULL;
}

/* ---- which numbers are asked ---- */

/* Their numbers lie in *first .. *end - 1. Returns how many they are. */
static size_t range_of_columns(const struct asking *a, size_t at, size_t n,
                               size_t *first, size_t *end)
{
    const struct tamis_snapshot *s = a->snapshot;
    const struct tamis_target *t = &a->q->targets[at];
    size_t n_columns = 0;
    *first = *end = 0;
    for (size_t i = 0; i < n; i++) {
        if (!plain_between(s, &t[i], s->n_loose, s->n))
            continue;
        *first = !n_columns || t[i].ordinal - 1 < *first ? t[i].ordinal - 1 : *first;
        *end = t[i].ordinal > *end ? t[i].ordinal : *end;
        n_columns++;
    }
    return n_columns;
}

/* The lines that each row of these numbers has, roughly. */
static size_t lines_of_numbers(const struct shared_files *p, size_t begin, size_t end)
{
    return (end - begin) / LINE_COLUMNS + stripes_before(p, end - 1) -
           stripes_before(p, begin) + 1;
}

/* Are all loose segments ready, and are half of them listed, or do all take less time
 * than to count these? Then they are asked sooner as they follow each other. */
static bool lists_loose(const struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    uint64_t epoch = stage_epoch(), ready = UINT64_MAX;
    size_t n_listed = 0;
    if (!s->n_loose || s->n_loose > 2 * n)
        return false;
    for (size_t i = 0; i < s->n_loose; i += WORD)
        ready &= planes_are_ready(&s->planes, i, epoch) | ~first_bits(s->n_loose - i);
    if (asks_any(a) /* of those that are listed */ || 4 * s->n_loose * a->n <= n)
        return ready == UINT64_MAX;
    for (size_t i = 0; i < n && ready == UINT64_MAX; i++)
        n_listed += plain_between(s, &a->q->targets[at + i], 0, s->n_loose);
    return 2 * n_listed >= s->n_loose;
}

/* The numbers in stripes that are asked, *begin .. *end - 1. False: each is better
 * asked by itself. */
static bool lists_columns(const struct asking *a, size_t at, size_t n, size_t *begin,
                          size_t *end)
{
    const struct shared_files *shared = &a->snapshot->shared;
    size_t n_columns = n, n_lines = lines_of_numbers(shared, *begin, *end);
    if (n_lines >= n / 16) { /* else most of them are asked anyway */
        n_columns = range_of_columns(a, at, n, begin, end);
        n_lines = n_columns ? lines_of_numbers(shared, *begin, *end) : 0;
    }
    return n_lines + 4 <= 2 * n_columns;
}

/* ---- room ---- */

/* The snapshot keeps one, for it takes as long to map memory as to use it. The first
 * word says how many there are. NULL: there is no memory. */
static uint64_t *take_room(struct tamis_snapshot *s, size_t n_words)
{
    int saved = errno;
    uint64_t *room = atomic_exchange(&s->room, NULL);
    if (room && room[0] >= n_words)
        return room;
    unmap_room(room);
    room = io_calls.mmap(NULL, n_words * sizeof *room, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    errno = saved;
    if (room == MAP_FAILED)
        return NULL;
    room[0] = n_words;
    return room;
}

static void give_room(struct tamis_snapshot *s, uint64_t *room)
{
    uint64_t *none = NULL;
    if (room && !atomic_compare_exchange_strong(&s->room, &none, room))
        unmap_room(room);
}

/* Chooses how to ask n targets, for some keys at a time. Returns how much room it
 * takes: for marks, for rows, and for bytes, one behind the other. */
static size_t choose_room(const struct asking *a, struct page *p, size_t n,
                          size_t *marks, size_t *bytes)
{
    size_t most = n < MANY_TARGETS ? ROOM_WORDS : MOST_WORDS;
    p->n_words = (((p->n - 1) / LINE_COLUMNS + 1) | 1) * WORDS_PER_BLOCK;
    *marks = *bytes = 0;
    if (asks_any(a) || n < p->n / 4) /* hits of others are not looked at */
        *marks = words_to_mark(p);
    if (asks_any(a))
        return *marks;
    most = (most - (*marks < most ? *marks : most)) / p->n_words;
    if (a->n > 1 && a->n <= BYTE_KEYS && 2 * n >= p->n && 2 * BYTE_KEYS <= most) {
        p->max_keys = BYTE_KEYS;
        *bytes = BYTE_KEYS * p->n_words;
    } else {
        p->turned =
            a->n > BYTE_KEYS && a->rows && n * a->n >= p->n + A_TURN && WORD <= most;
        p->max_keys = p->turned ? WORD : a->n < most ? a->n : most ? most : 1;
    }
    return *marks + p->max_keys * p->n_words + *bytes;
}

bool look_up_targets(struct asking *a, size_t at, size_t n)
{
    struct tamis_snapshot *s = a->snapshot;
    uint64_t stack[ROOM_WORDS], *room = NULL;
    size_t begin = s->n_loose, end = s->n;
    if (n < 3 || a->plain != a->all || a->sheet)
        return false;
    bool striped = s->shared.n_stripes && lists_columns(a, at, n, &begin, &end);
    bool loose = lists_loose(a, at, n);
    if (striped && loose) /* together, if few numbers lie in between */
        loose = lines_of_numbers(&s->shared, s->n_loose, begin) <= n / 16 + 1;
    if (!loose && !striped)
        return false;
    begin = loose ? 0 : begin;
    end = striped ? end : s->n_loose;
    struct page p = {.first = begin, .n = end - begin};
    size_t marks, bytes, n_words = choose_room(a, &p, n, &marks, &bytes);
    if (n_words > ROOM_WORDS && !(room = take_room(s, WORDS_PER_BLOCK + n_words)))
        return false;
    p.marks = room ? room + WORDS_PER_BLOCK : stack;
    p.rows = p.marks + marks;
    p.bytes = bytes ? (uint8_t *)(p.marks + n_words - bytes) : NULL;
    if (!marks)
        p.marks = NULL;
    else if (!asks_any(a))
        mark_targets(a, &p, at, n, false);
    if (asks_any(a))
        ask_marked(a, &p, at, n);
    else
        for (; p.from < a->n; p.from += p.n_keys) {
            ask_page(a, &p);
            look_up_all(a, &p, at, n);
        }
    give_room(s, room);
    return true;
}
