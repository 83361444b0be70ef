/* Targets in no order: all columns, all loose segments, or both are asked, into rows of
 * bits of their own, where each target then finds its bit. The rows of many keys are
 * turned first, so that one look at a target answers for all of them:
 *
 *     number          0 1 2 3 ...                 key     0 1 ...
 *     key 0 absent    0 0 1 0 ...     number 0            0 1 ...   <-- target 0
 *     key 1 absent    1 1 0 1 ...     number 1            0 1 ...
 *     ...                             number 2            1 0 ...   <-- target 2
 *
 * The list may be much longer than all rows: each pass over it counts. Warning: targets
 * that lie nowhere in these rows are asked during the first pass, and only then. */
#include "lib/store/query/inside.h"
#include "lib/io/io.h"

#include <endian.h>
#include <sys/mman.h>

enum {
    ROOM_WORDS = 2048,    /* on the stack; */
    NEAR_WORDS = 1 << 15, /* in a cache nearby; */
    KEPT_WORDS = 1 << 17, /* mapped, between queries */
    FEW_KEYS = 4,         /* are looked up one by one */
    MANY_TARGETS = 512,   /* take longer than memory that is mapped; */
    A_TURN = 1024,        /* of one key take as long as a square that is turned */
};

struct page {
    size_t begin, end; /* all numbers that are asked so; */
    size_t first, n;   /* those of this page */
    size_t from, n_keys, max_keys;
    /* Of a row: an odd number of lines, else all rows would meet in one set of a cache.
     */
    size_t n_words;
    bool bare;        /* hits are not looked at: few of these columns are asked for */
    bool turned;      /* word n / 64 of row n % 64 is number n's: a bit for each key */
    bool clean;       /* rows are zeros */
    bool others;      /* targets that lie on no page are still to be asked */
    uint64_t *listed; /* the numbers that are targets, once they are looked for */
    uint64_t *rows;
};

/* Does nobody ask which of the targets may have a key, but only whether any may? */
static bool asks_any(const struct asking *a)
{
    return !a->rows && !a->reasons;
}

/* ---- rows ---- */

/* Asks keys, as many as there is room for. Returns those whose hits a range may
 * exclude, or a failed page made. */
static uint64_t ask_page(const struct asking *a, struct page *p)
{
    struct tamis_query all = *a->q;
    struct asking b = *a;
    all.targets = NULL; /* numbers */
    b.q = &all;
    b.reasons = NULL;
    b.each_hit = false;
    b.bare = p->bare;
    b.damaged = 0;
    b.n_words = p->n_words;
    b.n = a->n - p->from < p->max_keys ? a->n - p->from : p->max_keys;
    b.keys = a->keys + p->from;
    b.hash = a->hash + p->from;
    b.prefix = a->prefix + p->from;
    b.plain = b.all = first_bits(b.n);
    b.ranged = a->ranged >> p->from & b.all;
    b.rows = p->rows;
    p->n_keys = b.n;
    memset(p->rows, 0, (p->turned ? WORD : b.n) * p->n_words * sizeof *p->rows);
    ask_numbers(&b, 0, p->first, p->n);
    for (size_t k = 0; k < b.n; k++)
        b.damaged |= (uint64_t)(b.keys[k].bytes != NULL) << k;
    return p->bare ? b.damaged : 0;
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

/* ---- targets ---- */

/* Asks those of n targets that no page answers. */
static void ask_off_pages(struct asking *a, const struct page *p, size_t at, size_t n)
{
    uint64_t on_pages = 0;
    for (size_t i = 0; i < n; i++)
        on_pages |= (uint64_t)plain_between(a->snapshot, &a->q->targets[at + i],
                                            p->begin, p->end)
                    << i;
    if (on_pages != first_bits(n))
        ask_slice(a, at, n, on_pages | ask_columns_apart(a, at, n, on_pages));
}

/* Which of n targets, at most 64, lie on this page, and where? The others get place 0,
 * and are asked if they still are to be. */
static inline uint64_t find_targets(struct asking *a, const struct page *p, size_t at,
                                    size_t n, uint32_t *place)
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
    if (p->others)
        ask_off_pages(a, p, at, n);
    return here;
}

static void list_targets(struct asking *a, struct page *p, size_t at, size_t n)
{
    uint32_t place[WORD];
    memset(p->listed, 0, p->n_words * sizeof *p->listed);
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < WORD ? n - i : WORD;
        uint64_t here = find_targets(a, p, at + i, some, place);
        for (size_t k = 0; k < some; k++)
            p->listed[place[k] / WORD] |= (here >> k & 1) << place[k] % WORD;
    }
    p->others = false;
}

/* Looks at the hits of a key among listed numbers, with care if they are doubtful,
 * until one is sure if any will do. */
static void look_at_listed(struct asking *a, const struct page *p, size_t k,
                           bool doubtful)
{
    uint64_t *absent = p->rows + k * p->n_words, key = UINT64_C(1) << (p->from + k);
    for (size_t i = 0; i < bit_words(p->n); i++)
        for (uint64_t hits = p->listed[i] & ~absent[i]; hits; hits &= hits - 1) {
            size_t number = p->first + i * WORD + (size_t)__builtin_ctzll(hits);
            const struct tamis_target t = {.slot = (uint32_t)number + 1,
                                           .snapshot = a->snapshot->serial};
            if (doubtful && ask_with_care(a, &t, 0, key)) {
                absent[i] |= hits & -hits;
            } else if (asks_any(a)) {
                a->some |= key;
                return;
            }
        }
}

/* Key i, and its hits in a slice, each of which gets a reason. Returns those that are
 * absent after all. */
static uint64_t look_again(struct asking *a, size_t i, const struct slice *t,
                           uint64_t hits)
{
    uint64_t absent = 0;
    for (; hits; hits &= hits - 1) {
        size_t k = (size_t)__builtin_ctzll(hits);
        if (ask_with_care(a, &t->targets[k], t->at + k, UINT64_C(1) << i))
            absent |= hits & -hits;
    }
    return absent;
}

/* Up to 64 targets, key by key. */
static void look_up_slice(struct asking *a, const struct page *p, size_t at, size_t n)
{
    struct slice t;
    uint32_t place[WORD];
    slice_begin(&t, a, at, n);
    t.asked = find_targets(a, p, at, n, place);
    for (size_t k = 0; k < p->n_keys; k++) {
        uint64_t absent = t.asked & look_up(p->rows + k * p->n_words, place, n);
        uint64_t late = 0;
        if (a->reasons)
            late = look_again(a, p->from + k, &t, t.asked & ~absent);
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
        here[k] = find_targets(a, p, at + k * WORD, some, place);
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
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < step ? n - i : step;
        if (p->turned)
            look_up_square(a, p, at + i, some);
        else
            look_up_slice(a, p, at + i, some);
    }
    p->others = false;
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
        *first = !n_columns || t[i].slot - 1 < *first ? t[i].slot - 1 : *first;
        *end = t[i].slot > *end ? t[i].slot : *end;
        n_columns++;
    }
    return n_columns;
}

/* The lines that each row of these columns has, roughly. */
static size_t lines_of_numbers(const struct shared_files *p, size_t begin, size_t end)
{
    return (end - begin) / LINE_COLUMNS + stripes_before(p, end - 1) -
           stripes_before(p, begin) + 1;
}

/* Are at least half of the loose segments among n targets, and all of them ready? Then
 * all are asked sooner, as they follow each other. */
static bool lists_loose(const struct asking *a, size_t at, size_t n)
{
    const struct tamis_snapshot *s = a->snapshot;
    uint64_t epoch = stage_epoch(), ready = UINT64_MAX;
    size_t n_listed = 0;
    if (!s->n_loose || s->n_loose > 2 * n)
        return false;
    for (size_t i = 0; i < s->n_loose; i += WORD)
        ready &= planes_are_ready(&s->planes, i, epoch) | ~first_bits(s->n_loose - i);
    for (size_t i = 0; i < n && ready == UINT64_MAX; i++)
        n_listed += plain_between(s, &a->q->targets[at + i], 0, s->n_loose);
    return 2 * n_listed >= s->n_loose;
}

/* The columns that are asked, *begin .. *end - 1. False: each is better asked by
 * itself. */
static bool lists_columns(const struct asking *a, size_t at, size_t n, size_t *begin,
                          size_t *end)
{
    const struct shared_files *packs = &a->snapshot->shared;
    size_t n_columns = n, n_lines = lines_of_numbers(packs, *begin, *end);
    if (n_lines >= n / 16) { /* else most of them are asked anyway */
        n_columns = range_of_columns(a, at, n, begin, end);
        n_lines = n_columns ? lines_of_numbers(packs, *begin, *end) : 0;
    }
    return n_lines + 4 <= 2 * n_columns;
}

/* ---- room ---- */

/* The snapshot keeps one, for it takes as long to map memory as to use it. The first
 * word says how many there are. NULL: there is no memory. */
static uint64_t *take_room(struct tamis_snapshot *s, size_t n_words)
{
    uint64_t *room = atomic_exchange(&s->room, NULL);
    if (room && room[0] >= n_words)
        return room;
    unmap_room(room);
    room = io_calls.mmap(NULL, n_words * sizeof *room, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    room[0] = n_words;
    return room;
}

static void give_room(struct tamis_snapshot *s, uint64_t *room)
{
    uint64_t *none = NULL;
    if (room && (room[0] > KEPT_WORDS ||
                 !atomic_compare_exchange_strong(&s->room, &none, room)))
        unmap_room(room);
}

/* Divides the room: for all keys and all numbers; or on the stack, for some of them at
 * a time. Returns what was taken; NULL: nothing. */
static uint64_t *divide_room(const struct asking *a, struct page *p, size_t n,
                             uint64_t *stack)
{
    size_t n_numbers = p->end - p->begin, n_rows = a->n, n_words;
    uint64_t *room = NULL;
    p->turned = a->n > FEW_KEYS && a->rows && n * a->n >= n_numbers + A_TURN;
    p->n_words = (((n_numbers - 1) / LINE_COLUMNS + 1) | p->turned) * WORDS_PER_BLOCK;
    if (p->turned)
        n_rows = WORD;
    else if (asks_any(a) && n_rows * p->n_words > NEAR_WORDS)
        n_rows = 1 + NEAR_WORDS / p->n_words;
    n_words = (1 + n_rows) * p->n_words;
    if (n_words > ROOM_WORDS && n >= MANY_TARGETS)
        room = take_room(a->snapshot, WORDS_PER_BLOCK + n_words);
    if (n_words > ROOM_WORDS && !room) {
        p->turned = false;
        p->n_words = p->n_words < ROOM_WORDS / 2 ? p->n_words : ROOM_WORDS / 2;
        n_rows = ROOM_WORDS / p->n_words - 1;
    }
    p->max_keys = n_rows;
    p->listed = room ? room + WORDS_PER_BLOCK : stack;
    p->rows = p->listed + p->n_words;
    return room;
}

bool look_up_targets(struct asking *a, size_t at, size_t n)
{
    struct tamis_snapshot *s = a->snapshot;
    struct page p = {.begin = s->n_loose, .end = s->n, .others = true};
    uint64_t stack[ROOM_WORDS];
    if (n < 3 || a->plain != a->all || a->sheet)
        return false;
    bool columns = s->shared.n_stripes && lists_columns(a, at, n, &p.begin, &p.end);
    bool loose = lists_loose(a, at, n);
    if (columns && loose) /* together, if few columns lie in between */
        loose = lines_of_numbers(&s->shared, s->n_loose, p.begin) <= n / 16 + 1;
    if (!loose && !columns)
        return false;
    p.begin = loose ? 0 : p.begin;
    p.end = columns ? p.end : s->n_loose;
    p.bare = columns && (asks_any(a) || n < (p.end - p.begin) / 4);
    uint64_t *room = divide_room(a, &p, n, stack);
    for (p.first = p.begin; p.first < p.end; p.first += p.n) {
        bool listed = asks_any(a);
        p.n = p.end - p.first;
        p.n = p.n < p.n_words * WORD ? p.n : p.n_words * WORD;
        if (listed)
            list_targets(a, &p, at, n);
        for (p.from = 0; p.from < a->n; p.from += p.n_keys) {
            uint64_t doubtful = ask_page(a, &p);
            if (doubtful && !a->reasons && !listed)
                list_targets(a, &p, at, n), listed = true;
            for (size_t k = 0; listed && k < p.n_keys; k++)
                if (asks_any(a) || doubtful >> k & 1)
                    look_at_listed(a, &p, k, doubtful >> k & 1);
            if (asks_any(a))
                continue;
            if (p.turned)
                turn_rows(s->planes.kernel, &p);
            look_up_all(a, &p, at, n);
        }
    }
    give_room(s, room);
    return true;
}
