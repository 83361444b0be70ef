/* A checked builder refuses a filter that a bit flipped in memory has spoilt.
 *
 * Digests cover bits from the moment they are made. Before it a lost bit is blessed
 * with the rest of its page, and a hash that changes before its bits are set is a key
 * that the filter never gets. So a sum of the hashes is taken as they come in, the
 * finished bits are asked for every hash (fill.c), and the hashes that were asked
 * must have that sum. Domain, watermark and key range have a digest of their own,
 * renewed with each change, and the header is compared with them before it is written.
 *
 * A key or hash that changes before its sum is taken is another key to all of this. */
#include "lib/builder/inside.h"
#include "format/hash.h"

void check_came_in(struct tamis_builder *b, const uint64_t *from, size_t n,
                   uint64_t last)
{
    struct hash_sum sum = b->came_in;
    for (size_t i = 0; i < n; i++) {
        if (from[i] != last)
            hash_sum_add(&sum, from[i]);
        last = from[i];
    }
    b->came_in = sum;
}

static uint64_t notes_digest(const struct tamis_builder *b)
{
    const struct key_range *r = &b->range;
    const uint64_t rest[] = {
        b->domain.hash_id, b->domain.seed, b->domain.tag,   b->watermark,   r->known,
        r->first_bytes,    r->last_bytes,  b->first_prefix, b->last_prefix,
    };
    if (r->first_bytes > sizeof r->first || r->last_bytes > sizeof r->last)
        return ~b->notes;
    uint64_t digest = hash_key(0, r->first, r->first_bytes);
    digest = hash_key(digest, r->last, r->last_bytes);
    return hash_key(digest, rest, sizeof rest);
}

void check_notes(struct tamis_builder *b)
{
    b->changed |= b->checks && notes_digest(b) != b->notes;
}

void check_note(struct tamis_builder *b)
{
    if (b->checks)
        b->notes = notes_digest(b);
}

bool check_header(struct tamis_builder *b, const uint8_t header[PAGE_BYTES],
                  uint64_t available)
{
    struct identity id;
    struct commit c;
    struct slot_health health;
    check_notes(b);
    if (b->changed || identity_decode(header, PAGE_BYTES, &id).code != VERDICT_OK ||
        commit_choose_slot(header, &id, available, &c, &health).code != VERDICT_OK)
        return false;
    const struct geometry *g = &c.stages[c.n_stages - 1].geometry;
    return hash_domain_tag(id.hash_id, id.hash_seed) == b->domain.tag &&
           c.watermark == b->watermark && id.kind == b->kind &&
           (c.n_stages == 1 || b->kind == KIND_RIBBON) &&
           g->n_blocks == b->asked.n_blocks && g->lanes == b->asked.lanes &&
           g->words == b->asked.words;
}
