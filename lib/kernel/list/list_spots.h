/* The body of a list kernel: list_spot.c includes it once for each instruction set.
 *
 *     SPOT(name)   name of a function
 *     SPOT_TARGET  its attribute
 *     SPOT_HAS     has_top(), or what equals it
 *     SPOT_CAN     of two groups with tops of two bytes, can this top be in one?
 *
 * A probe waits for two loads of a page. How many probes a processor has in flight
 * meanwhile goes by their instructions, so all of it is in one function, without a
 * branch that is taken by chance. */

SPOT_TARGET static bool SPOT(spot)(const uint8_t *page, uint64_t first, uint64_t value,
                                   struct list_spot *s)
{
    return find_spot(page, first, value, s);
}

SPOT_TARGET GROUP_INLINE bool SPOT(tops_lack)(const uint8_t *page,
                                              const struct list_spot *s)
{
    uint32_t group = s->group, top_bytes = s->top_bytes;
    bool has = SPOT_HAS(list_group_tops(page, top_bytes, group), top_bytes, s->top);
    while (__builtin_expect(group < s->last, 0))
        has |= SPOT_HAS(list_group_tops(page, top_bytes, ++group), top_bytes, s->top);
    return !has;
}

SPOT_TARGET static bool SPOT(spot_lacks)(const uint8_t *page, const struct list_spot *s)
{
    return SPOT(tops_lack)(page, s);
}

SPOT_TARGET static bool SPOT(lacks)(const uint8_t *page, uint64_t first, uint64_t value)
{
    struct list_spot s;
    return find_spot(page, first, value, &s) && SPOT(tops_lack)(page, &s);
}

/* Can the page have the value? Its head has a shape that was found valid, with tops of
 * two bytes and leaders that fit a vector. */
SPOT_TARGET GROUP_INLINE bool SPOT(can_have)(const uint8_t *page, uint32_t shape,
                                             uint64_t first, uint64_t value)
{
    uint32_t n = shape & 0xffff, gap_bits = shape >> 16 & 0xff;
    uint32_t n_leaders = (n - 2) / LIST_GROUP; /* list_leaders_of(n - 1) */
    uint64_t high = ((value >> gap_bits) - (first >> gap_bits)) >> (shape >> 24);
    bytes16 want = (bytes16){0} + (uint8_t)(high < UINT8_MAX ? high : UINT8_MAX);
    bytes16 leaders = load16(page + LIST_HEAD_BYTES);
    uint32_t end = 1U << n_leaders;
    uint32_t group = (uint32_t)__builtin_ctz(mask16((bytes16)(leaders >= want)) | end);
    uint32_t equal = mask16((bytes16)(leaders == want)) & (end - 1);
    const uint8_t *tops = list_group_tops(page, 2, group);
    uint32_t top = (uint16_t)(value >> (gap_bits - 16));
    /* A leader is as high: the value can be in the group behind it, too. This happens
     * to one value in six, so it takes no branch: the others ask one group twice. */
    equal >>= group;
    bool can = SPOT_CAN(tops, tops - (equal & 1) * (2 * LIST_GROUP), top);
    return can || RARELY(equal & 2); /* three groups are asked elsewhere */
}

SPOT_TARGET static enum tamis_answer SPOT(answer)(const struct plane *plane,
                                                  const struct tamis_key *key,
                                                  enum tamis_reason *why)
{
    const struct own_head *head = (const struct own_head *)(const void *)plane;
    const struct list_plane *l = head->of_kind;
    uint64_t h = key->hash, number = list_guess(l, h), value = h >> l->cut;
    if (RARELY(number >= l->last_page) ||
        RARELY(atomic_load_explicit(l->table_tag, memory_order_acquire) != key->tag))
        return head->otherwise(plane, key, why);
    uint64_t first = digest_at(l->table, number),
             next = digest_at(l->table, number + 1);
    const uint8_t *page = l->pages + number * PAGE_BYTES;
    uint32_t shape = list_shape_seen(l, page);
    if (RARELY(value <= first) || RARELY(value >= next) || RARELY(!shape) ||
        RARELY(digest_at(page, 0) != first) ||
        RARELY(SPOT(can_have)(page, shape, first, value)) ||
        RARELY(!own_none_lost(head)))
        return head->otherwise(plane, key, why);
    if (why)
        *why = TAMIS_NO_REASON;
    return TAMIS_ABSENT;
}

SPOT_TARGET static bool SPOT(find)(const uint8_t *page, const struct list_page *p,
                                   uint64_t value)
{
    return find_in_page(page, p, value);
}

static const struct list_kernel SPOT(kernel_list) = {SPOT(answer),
                                                     SPOT(lacks),
                                                     SPOT(spot),
                                                     SPOT(spot_lacks),
                                                     SPOT(find),
                                                     SPOT(list_page_values),
                                                     SPOT_PACK(list_page_pack),
                                                     SPOT_PACK(list_values_rise)};

#undef SPOT
#undef SPOT_PACK
#undef SPOT_TARGET
#undef SPOT_HAS
#undef SPOT_CAN
