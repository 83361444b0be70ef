# Words for gdb: tamis-filter F, tamis-segment SNAPSHOT INDEX, tamis-snapshot SNAPSHOT. They take
# a struct tamis_filter * or a struct tamis_snapshot * and read memory only, so they work on a
# core file too. gdb reads this file if it is started here and trusts the directory; elsewhere
# say `source .gdbinit`.
python
import gdb

KINDS = {1: 'Bloom', 2: 'pack', 3: 'ribbon', 4: 'map', 5: 'list'}
STATES = {0: 'unreadable record', 1: 'no filter', 2: 'growing', 3: 'sealed'}


def atomic(value):
    """An _Atomic member as what it holds."""
    return value.cast(value.type.unqualified())


def number(value):
    return int(atomic(value))


def text(first, n_bytes):
    """Bytes from memory as printable text."""
    shown = gdb.selected_inferior().read_memory(int(first), n_bytes).tobytes()
    return ''.join(chr(b) if 32 <= b < 127 and b != 92 else '\\x%02x' % b for b in shown)


def pages(stage):
    good, n = number(stage['n_good']), number(stage['n_pages'])
    if number(stage['state']) == number(stage['good']):
        good = n
    return '%d of %d pages known to be good' % (good, n)


def filter_words(f):
    identity, view = f['identity'], atomic(f['view'])
    name = text(identity['name'].address, int(identity['name_bytes']))
    kind = int(identity['kind'])
    yield 'filter %s of segment "%s"' % (f['path'].string() if f['path'] else '(no path)', name)
    yield '  kind %s, error wanted %g, %d stages, %s, watermark %d' % (
        KINDS.get(kind, kind), float(identity['target_error']), int(view['n_stages']),
        'sealed when opened' if int(f['fd']) < 0 else 'may grow', number(view['watermark']))
    first = view['stages'][0].address
    for i in range(int(view['n_stages'])):
        stage = first[i]
        yield '  stage %d: %d lanes of %d words, %d blocks, %s, checked by %s' % (
            i, int(stage['geometry']['lanes']), int(stage['geometry']['words']),
            int(stage['geometry']['n_blocks']), pages(stage),
            'digests' if stage['by_digests'] else 'floors')


def segment_words(snapshot, i):
    e = snapshot['entries'][i]
    first = e['bytes'].address
    f, failure = atomic(e['filter']), number(e['failure'])
    yield 'segment %d "%s": %s, rank %d, watermark %d%s' % (
        i, text(first, int(e['name_bytes'])), STATES.get(int(e['state']), 'unknown state'),
        int(e['rank']), int(e['watermark']), ', in a pack' if e['elsewhere'] else '')
    if failure:
        yield '  its filter cannot be opened: error %d' % failure
    elif f:
        for line in filter_words(f):
            yield '  ' + line
    else:
        yield '  its filter was not used yet'


def snapshot_words(snapshot):
    yield 'snapshot %d of transaction %d: %d segments, %d packs, its list is %s' % (
        int(snapshot['serial']), int(snapshot['number']), int(snapshot['n_segments']),
        int(snapshot['shared']['n']), 'complete' if snapshot['complete'] else 'not confirmed')
    for i in range(int(snapshot['n_loose'])):
        yield '  ' + next(segment_words(snapshot, i))
    for i in range(int(snapshot['shared']['n'])):
        view = snapshot['shared']['views'][i]
        yield '  segments from %d on: %d of the %d columns of a pack%s' % (
            int(view['base']), int(view['n_listed']), int(view['n_columns']),
            ', which cannot be used: error %d' % int(view['failure']) if view['failure'] else '')


class Words(gdb.Command):
    def __init__(self, name, words):
        self.words = words
        super().__init__(name, gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        given = [gdb.parse_and_eval(word) for word in gdb.string_to_argv(argument)]
        for line in self.words(*given):
            gdb.write(line + '\n')


Words('tamis-filter', filter_words)
Words('tamis-segment', lambda snapshot, i: segment_words(snapshot, int(i)))
Words('tamis-snapshot', snapshot_words)
end
