# make check-mutants: do the tests notice when the code is wrong?
#
# Planted bugs (planted.pl) or mutants that mutate.pl makes are put, one at a time, into a
# copy of the tree. Tests of that copy run until one fails, again and again: nothing is
# taken as killed that was not seen to fail here and now, and a busy machine may make a
# test fail once. The unchanged copy must pass the same tests first.
#
#     run.pl                                 each planted bug, with the test that it names
#     run.pl --draw N --seed S [--record]    N mutants drawn by the seed, with all tests
#     run.pl --drawn                         those that drawn.txt says were killed
#
# A mutant stands if it compiles and its object code is neither the original's nor that of
# a mutant drawn before it. --record appends to drawn.txt, and goes on with what it lacks.
use strict;
use warnings;
use Cwd ();

my %o = (jobs => 1, only => '', seed => 1, work => 'build/mutants');
while (defined(my $a = shift @ARGV)) {
    if    ($a =~ /^--(jobs|only|draw|seed|work)$/)    { $o{$1} = shift @ARGV }
    elsif ($a =~ /^--(list|drawn|record)$/)           { $o{$1} = 1 }
    else { die "unknown option $a\n" }
}
my $source = Cwd::getcwd();
my $here = "$source/tests/mutants";
my $work = "$source/$o{work}";
do "$here/$_.pl" or die $@ || $! for qw(mutate tree planted);
$| = 1;

my @ROOMS = qw(lib/store lib/writer lib/filter format);
# The samples of make check that tests may be named after: make targets.
my @BRIEF = qw(crash-brief kill-brief rot-brief faults-brief stops-brief);
# Programs and plugins that a test runs or loads; they are linked with the library, too.
my %ALSO = (
    test_golden => [map { "build/tests/golden/make_$_" } qw(golden ribbons lists)],
    test_store_copies => [map { "build/tests/plugin_$_.so" } 'a', 'b']);
$ENV{TAMIS_TEST_LONG} //= 0;

# ---- what there is to try: hashes of a name, a test that may kill it, and a change ----

sub planted {
    my $functions = planted_functions($source);
    return map { { name => $_->{name}, hint => $_->{test}, rule => $_->{rule}, bug => $_->{bug},
        changes => planted_apply($source, $_, $functions) } } planted_entries("$here/planted");
}

# All mutants, by name.
sub generated {
    my %all;
    for my $f (split /\n/, `cd '$source' && find @ROOMS -name '*.[ch]'`) {
        my $text = slurp("$source/$f");
        $all{"$f:$_->{name}"} = { name => "$f:$_->{name}", function => "$f:$_->{function}", file => $f,
            room => $f =~ s{/[^/]*$}{}r, mutant => $_ } for @{ mutants_of($text) };
    }
    return \%all;
}

# The new text of each file that it changes.
sub changes_of {
    my ($t, $m) = @_;
    return $m->{changes} || { $m->{file} => mutated(slurp("$t->{root}/$m->{file}"), $m->{mutant}) };
}

# The hash by which mutants are drawn (FNV-1a of 64 bits).
sub hash_of {
    use integer;
    no warnings 'portable';
    my $h = -0x340d631b7bdddcdb;
    $h = ($h ^ ord) * 0x100000001b3 for split //, $_[0];
    return sprintf '%016x', ($h ^ $h >> 29) * 0x100000001b3;
}

# drawn.txt: "NAME: killed by TEST" or "NAME: survives", and why that is harmless.
sub recorded {
    my %test;
    for (split /\n/, -f "$here/drawn.txt" ? slurp("$here/drawn.txt") : '') {
        next if /^(?:#|$)/;
        /^(\S+: `.*`(?: #\d+)?): (?:killed by (\S+)|survives.*)$/ or die "drawn.txt: $_\n";
        $test{$1} = $2 // '';
    }
    return \%test;
}

# ---- tests: hashes of name, programs (to be linked), run (a command) ----

sub test_of {
    my ($name) = @_;
    return { name => $name, programs => ['build/tamis'], run => "bats tests/$name" } if $name =~ m{^cli/};
    return { name => $name, programs => ["build/tests/$name", @{ $ALSO{$name} || [] }],
        run => "build/tests/$name" } if $name =~ /^test_/;
    my @commands = grep { m{^build/tests/\S+/} } split /\n/, `cd '$source' && make -n -B B=build $name 2>/dev/null`;
    @commands = grep { !/ -o / } @commands or die "no such test: $name\n";
    my %programs = map { /^(\S+)/; $1 => 1 } @commands;
    return { name => $name, programs => [sort keys %programs], run => join ' && ', @commands };
}

sub all_tests {
    return map { test_of($_) } (map { m{/(test_\w+)\.c$} } sort glob "$source/tests/unit/*/test_*.c"), @BRIEF;
}

# The test that a neighbour's death or its room speaks for comes first, the quick before the slow.
my (@tests, %kills);
sub in_order {
    my ($m) = @_;
    my $score = sub {
        my ($t) = @_;
        return 1e9 if $t->{name} eq ($m->{hint} || '');
        my $n = 0.3 + 0.5 * ($kills{ $t->{name} } || 0);
        $n += 2 if $t->{room} && index($m->{room}, $t->{room}) == 0;
        $n += 2 * ($kills{"$m->{room} $t->{name}"} || 0) + 6 * ($kills{"$m->{file} $t->{name}"} || 0)
            + 20 * ($kills{"$m->{function} $t->{name}"} || 0);
        return $n / (0.3 + $t->{seconds});
    };
    my %score = map { $_->{name} => $score->($_) } @tests;
    return sort { $score{ $b->{name} } <=> $score{ $a->{name} } || $a->{name} cmp $b->{name} } @tests;
}

sub noted {
    my ($m, $test) = @_;
    $kills{$_}++ for $test, map { "$_ $test" } @$m{ 'room', 'file', 'function' };
}

my (@trees, $stop);

# ---- in child processes: each has a tree, and gives back a list of strings ----

sub compile {
    my ($t, $m) = @_;
    my $before = tree_change($t, changes_of($t, $m), 0, '', @tests);
    my @result = ($t->{failed} ? 'does not compile' : $t->{same} ? 'equivalent' : '', $t->{fingerprint});
    tree_restore($t, $before);
    return @result;
}

# How often a test must fail: the samples have limits of time for processes of their own.
sub looks { return $_[0]{name} =~ /-brief$/ ? 3 : 2 }

# ("" or how the test failed, its name, seconds). A generated mutant is of the library
# alone: what tests themselves compile of a header stays right.
sub try {
    my ($t, $m) = @_;
    my @with = $m->{rule} ? (grep { $_->{name} eq $m->{hint} } @tests) : in_order($m);
    my $before = tree_change($t, changes_of($t, $m), !!$m->{rule}, '', @with);
    my ($how, $by, $took) = ($t->{failed} ? 'does not compile' : '', '', 0);
    for my $test ($t->{failed} ? () : @with) {
        next if $test->{reaches} && !$test->{reaches}{ $m->{place} };
        for (1 .. looks($test)) {
            ($how, my $seconds) = tree_test($t, $test);
            $took += $seconds;
            last if $how eq '';
            $by = $test->{name};
        }
        last if $how ne '';
        print STDERR "$m->{name}: $by failed once, and passed\n" if $by eq $test->{name};
    }
    tree_restore($t, $before);
    return ($how, $how eq '' ? '' : $by, sprintf '%.1f', $took);
}

# Marks the statements of these mutants in each tree, and runs all tests to see which reach
# which: $test->{reaches}. A test that the marks disturb counts as one that reaches all.
sub see {
    my (%number, %text, @before);
    for my $m (@_) {
        my $text = $text{ $m->{file} } //= slurp("$source/$m->{file}");
        $m->{place} = sprintf '%s %08d', $m->{file}, place_before($text, $m->{mutant}{at});
        $number{ $m->{place} } //= keys %number;
    }
    for my $place (sort { $b cmp $a } keys %number) {
        my ($file, $at) = split / /, $place;
        substr($text{$file}, $at, 0) = " SEEN($number{$place});";
    }
    push @before, tree_change($_, \%text, 0, "-include '$here/seen.h'", @tests) for @trees;
    for (@trees) { die slurp($_->{log}) . "the marked tree does not compile\n" if $_->{failed} }
    pool(\@tests, sub {
        my ($t, $test) = @_;
        spit($ENV{TAMIS_SEEN} = "$t->{root}.seen", "\0" x 4096);
        my ($how, $seconds) = tree_test($t, $test);
        return ($how, $seconds, unpack 'H*', slurp($ENV{TAMIS_SEEN}));
    }, sub {
        my ($test, $how, $seconds, $seen) = @_;
        return if $how ne '';
        $test->{seconds} = $seconds;
        my @seen = split //, pack 'H*', $seen;
        $test->{reaches} = { map { $_ => 1 } grep { ord $seen[ $number{$_} ] } keys %number };
    });
    tree_restore($_, shift @before) for @trees;
    my $reach = 0;
    for my $m (@_) { $reach += grep { !$_->{reaches} || $_->{reaches}{ $m->{place} } } @tests }
    printf "a mutant is reached by %.1f of %d tests\n", $reach / @_, scalar @tests if @_;
}

# Does work($tree, $item) for each item, in a process for each tree, then done($item, results).
sub pool {
    my ($items, $work, $done) = @_;
    my (@todo, %busy, $n) = @$items;
    my @free = @trees;
    while (!$stop && @todo || %busy) {
        if (@todo && @free && !$stop) {
            my ($t, $item) = (shift @free, shift @todo);
            my $pid = fork // die "fork: $!\n";
            if ($pid == 0) { spit("$t->{root}.result", join "\t", $work->($t, $item)); POSIX::_exit(0) }
            $busy{$pid} = [$t, $item];
            next;
        }
        my $pid = wait;
        next if $pid < 0; # a signal
        my ($t, $item) = @{ delete $busy{$pid} };
        die "trying $item->{name} ended with status $?\n" if $? != 0;
        next if $stop; # its tests had the signal, too
        $done->($item, split /\t/, slurp("$t->{root}.result"), -1);
        push @free, $t;
        print STDERR "... $n of @{[scalar @$items]}\n" if ++$n % 50 == 0;
    }
}

# The first $n of @_ that stand.
sub standing {
    my ($n, @from) = @_;
    my (@stand, %seen, %count, %result);
    while (@stand < $n && @from && !$stop) {
        my @some = splice @from, 0, $n - @stand;
        pool(\@some, \&compile, sub { my ($m, @r) = @_; $result{ $m->{name} } = \@r });
        for my $m (grep { $result{ $_->{name} } } @some) {
            my ($not, $print) = @{ $result{ $m->{name} } };
            $not ||= 'duplicate' if $seen{$print}++;
            $not ? $count{$not}++ : push @stand, $m;
        }
    }
    print "passed over: $count{$_} $_\n" for sort keys %count;
    return @stand;
}

# ---- all of them ----

my @bad;
my $record = recorded();
my @all;
if ($o{draw} || $o{drawn}) {
    my $made = generated();
    if ($o{drawn}) {
        my @killed = grep { $record->{$_} } sort keys %$record;
        my @gone = grep { !$made->{$_} } @killed;
        print "not made any more: $_\n" for @gone;
        printf "%d mutants recorded: %d were killed, and %d of these are not made any more\n",
            scalar keys %$record, scalar @killed, scalar @gone;
        @all = map { { %{ $made->{$_} }, hint => $record->{$_} } } grep { $made->{$_} } @killed;
    } else {
        my %hash = map { $_ => hash_of("$o{seed} $_") } keys %$made;
        @all = @$made{ sort { $hash{$a} cmp $hash{$b} || $a cmp $b } keys %hash };
    }
    for (grep { $made->{$_} && $record->{$_} } keys %$record) { noted($made->{$_}, $record->{$_}) }
    @tests = all_tests();
    for (glob "$source/tests/unit/*/test_*.c") {
        my ($dir, $name) = m{/(\w+)/(\w+)\.c$};
        my $room = $dir eq 'format' ? $dir : "lib/" . $dir =~ s{_}{/}r;
        $_->{name} eq $name and $_->{room} = $room for @tests;
    }
} else {
    @all = planted();
    my %named = map { $_->{hint} => 1 } grep { $_->{name} =~ /$o{only}/ } @all;
    @tests = map { test_of($_) } sort keys %named;
    my %rules = map { $_ => 1 } map { $_->{rule} =~ /\bR\d+\b/g } @all;
    for (sort keys %{ { map { $_ => 1 } slurp("$source/SPEC.md") =~ /\b(R\d+)\b/g } }) {
        push @bad, "no planted bug for rule $_" unless $rules{$_};
    }
}
@all = grep { $_->{name} =~ /$o{only}/ } @all;
if ($o{list}) {
    print $_->{rule} ? "$_->{name}: $_->{rule}: $_->{bug}\n" : "$_->{name}\n" for @all;
    exit 0;
}

my $began = seconds();
my %programs = map { $_ => 1 } map { @{ $_->{programs} } } @tests;
system('mkdir', '-p', $work);
open my $lock, '>', "$work/lock" or die "$work/lock: $!\n";
flock $lock, 2 | 4 or die "another run is at work in $work\n";
$SIG{INT} = $SIG{TERM} = sub { $stop = 1 };
END { my $status = $?; tree_leave($_) for @trees; $? = $status }
for my $i (1 .. $o{jobs}) {
    print STDERR "building copy $i\n";
    push @trees, tree_new($source, "$work/tree$i", $o{jobs}, join ' ', sort keys %programs);
}
if ($o{draw}) {
    @all = standing($o{draw}, @all);
    see(@all);
}
# With marks most of them have passed already.
pool([grep { !defined $_->{seconds} } @tests], sub {
    my ($t, $test) = @_;
    for (1 .. looks($test)) {
        my @result = tree_test($t, $test);
        return @result if $result[0] eq '' || $_ == looks($test);
    }
}, sub {
    my ($test, $how, $seconds) = @_;
    push @bad, "the unchanged tree: $test->{name} $how" if $how ne '';
    $test->{seconds} = $seconds;
});
die map { "$_\n" } @bad if @bad;
printf "the unchanged tree passes %d tests, after %d s\n", scalar @tests, seconds() - $began;

my $keep;
if ($o{record}) {
    open $keep, '>>', "$here/drawn.txt" or die "drawn.txt: $!\n";
    $keep->autoflush(1);
    @all = grep { !exists $record->{ $_->{name} } } @all;
}
my ($n, $killed) = (0, 0);
pool(\@all, \&try, sub {
    my ($m, $how, $by, $took) = @_;
    $n++;
    my $ok = $by ne '' && $how ne 'does not link';
    $killed++ if $ok;
    noted($m, $by) if $ok && !$m->{rule};
    print $keep "$m->{name}: ", $ok ? "killed by $by\n" : "survives\n" if $keep;
    print "$m->{name}: ", $ok ? "killed by $by, which $how ($took s)\n" : "SURVIVES" . ($how && ", $how") . "\n"
        if !$ok || $m->{rule} || $ENV{V};
    push @bad, "survives: $m->{name}" unless $ok || $o{draw};
});

# ---- what came of it ----

push @bad, 'interrupted' if $stop;
push @bad, 'nothing was tried' if !$n && !$o{record};
my %by = map { $_->{name} => $kills{ $_->{name} } } grep { $kills{ $_->{name} } } @tests;
for (sort { $by{$b} <=> $by{$a} || $a cmp $b } keys %by) { printf "%5d by %s\n", $by{$_}, $_ }
printf "%d tried: %d killed (%.1f%%), %d survive; %d s\n", $n, $killed, $n ? 100 * $killed / $n : 0,
    $n - $killed, seconds() - $began;
print "FAILED: $_\n" for @bad;
exit(@bad ? 1 : 0);
