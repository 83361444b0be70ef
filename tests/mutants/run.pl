# make check-mutants: do the tests notice when the code is wrong?
#
# Planted bugs (planted.pl) or mutants that mutate.pl makes are put, one at a time, into a
# copy of the tree. Tests of that copy run until one fails: nothing is taken as killed that
# was not seen to fail here and now. The unchanged copy must pass the same tests first.
#
#     run.pl                                 each planted bug, with the test that it names
#     run.pl --draw N --seed S [--record]    N mutants drawn by the seed, with all tests
#     run.pl --drawn                         those that drawn.txt says were killed
#
# A mutant stands if it compiles and its object code is neither the original's nor that of
# a mutant drawn before it. It survives if it passes the tests that reach it, the likely and
# the quick ones first, for as many seconds of a processor as --cpu says; one test always
# runs to its end. --record appends to drawn.txt, and goes on with what it lacks.
use strict;
use warnings;
use Cwd ();

my %o = (jobs => 1, only => '', seed => 1, work => 'build/mutants', cpu => 30);
while (defined(my $a = shift @ARGV)) {
    if    ($a =~ /^--(jobs|only|draw|seed|work|cpu)$/) { $o{$1} = shift @ARGV }
    elsif ($a =~ /^--(list|drawn|record)$/)            { $o{$1} = 1 }
    else { die "unknown option $a\n" }
}
my $source = Cwd::getcwd();
my $here = "$source/tests/mutants";
my $work = "$source/$o{work}";
do "$here/$_.pl" or die $@ || $! for qw(mutate tree planted);
$| = 1;

my @ROOMS = qw(lib/store lib/writer lib/filter format);
# The samples of make check that tests may be named after: make targets. Mutants that are
# drawn meet fewer states of these.
my @BRIEF = qw(crash-brief kill-brief rot-brief faults-brief stops-brief);
my %FEW = ('crash-brief' => ' --states 2000', 'rot-brief' => ' --every 1500', 'kill-brief' => ' --cycles 10 --every 400');
# Programs and plugins that a test runs or loads; they are linked with the library, too.
my %ALSO = (
    test_golden => [map { "build/tests/golden/make_$_" } qw(golden ribbons lists)],
    test_store_copies => [map { "build/tests/plugin_$_.so" } 'a', 'b']);
$ENV{TAMIS_TEST_LONG} //= 0;

# ---- what there is to try: hashes of a name, a test that may kill it, and a change ----

sub planted {
    my $functions = planted_functions($source);
    return map { { name => $_->{name}, hint => $_->{test}, named => 1, rule => $_->{rule}, bug => $_->{bug},
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
    @commands = "$commands[0]$FEW{$name}" if ($o{draw} || $o{drawn}) && $FEW{$name};
    return { name => $name, programs => [sort keys %programs], run => join ' && ', @commands };
}

sub all_tests {
    return map { test_of($_) } (map { m{/(test_\w+)\.c$} } sort glob "$source/tests/unit/*/test_*.c"), @BRIEF;
}

# Likely tests come first: they killed a neighbour, are of the mutant's room or name, or reach few
# others. Quick tests come before slow ones. A sample of few states must have its turn: no other
# test misses a sync.
my (@tests, %kills);
sub in_order {
    my ($m) = @_;
    my $stem = $m->{file} =~ s{.*/(\w+)\..*}{$1}r;
    my %score;
    for my $t (grep { !$_->{reaches} || $_->{reaches}{ $m->{place} } } @tests) {
        my $n = 0.3 + 0.5 * ($kills{ $t->{name} } || 0) + ($t->{reaches} ? 2 / keys %{ $t->{reaches} } : 0);
        $n += 2 if $t->{room} && index($m->{room}, $t->{room}) == 0;
        $n += 5 if $FEW{ $t->{name} };
        $n += 4 if $t->{name} =~ /_\Q$stem\E(?:_|$)/;
        $n += 2 * ($kills{"$m->{room} $t->{name}"} || 0) + 6 * ($kills{"$m->{file} $t->{name}"} || 0)
            + 20 * ($kills{"$m->{function} $t->{name}"} || 0);
        $score{ $t->{name} } = $n / (0.3 + $t->{cpu});
    }
    return sort { $score{ $b->{name} } <=> $score{ $a->{name} } || $a->{name} cmp $b->{name} }
        grep { defined $score{ $_->{name} } } @tests;
}

sub noted {
    my ($m, $test) = @_;
    $kills{$_}++ for $test, map { "$_ $test" } @$m{ 'room', 'file', 'function' };
}

my (@trees, @bad, $stop);
my $began = seconds();

# ---- in child processes: each has a tree, and gives back a list of strings ----

# Where the objects of a mutant lie from the time that they are compiled.
sub kept { return "$work/kept/" . hash_of($_[0]{name}) }

sub compile {
    my ($t, $m) = @_;
    my $before = tree_change($t, changes_of($t, $m), \@tests, kept => kept($m));
    my @result = ($t->{failed} ? 'does not compile' : $t->{same} ? 'equivalent' : '', $t->{fingerprint});
    tree_restore($t, $before);
    return @result;
}

# Runs a test until it passes, and how often must it fail? A busy machine may make one of the
# samples fail, for their processes have limits of time, and any test hang. Tests on
# record are looked at twice.
sub looked {
    my ($t, $test) = @_;
    my ($brief, $looks, @result) = ($test->{name} =~ /-brief$/, 0);
    do { @result = tree_test($t, $test) }
        until $result[0] eq '' || ++$looks >= ($brief ? 3 : $o{record} || $result[0] eq 'hangs' ? 2 : 1);
    return ($looks, @result);
}

# ("" or how the test failed, its name, CPU seconds, how many tests had no time). A generated
# mutant is of the library alone: what tests themselves compile of a header stays right.
sub try {
    my ($t, $m) = @_;
    my @with = $m->{named} ? (grep { $_->{name} eq $m->{hint} } @tests) : in_order($m);
    my $before = tree_change($t, changes_of($t, $m), $m->{named} ? \@with : \@tests, all => !!$m->{rule},
        kept => $o{draw} ? kept($m) : '');
    my ($how, $by, $left, $used) = ($t->{failed} ? 'does not compile' : '', '', 0, processor());
    for my $test ($t->{failed} ? () : @with) {
        if ($test != $with[0] && processor() - $used + $test->{cpu} > $o{cpu}) { $left++; next }
        last if $stop;
        (my $looks, $how) = looked($t, $test);
        $by = $test->{name};
        last if $how ne '';
        print STDERR "$m->{name}: $by failed, and passed\n" if $looks;
    }
    $how = 'no test reaches' unless @with;
    tree_restore($t, $before);
    return ($how, $how eq '' ? '' : $by, sprintf('%.1f', processor() - $used), $left);
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
    system('rm', '-rf', "$work/marked");
    push @before, tree_change($_, \%text, \@tests, flags => "-include '$here/seen.h'", jobs => $o{jobs},
        kept => "$work/marked") for @trees;
    die slurp($trees[0]{log}) . "the marked tree does not compile\n" if $trees[0]{failed};
    pool(\@tests, sub {
        my ($t, $test) = @_;
        spit($ENV{TAMIS_SEEN} = "$t->{root}.seen", "\0" x 4096);
        return (tree_test($t, $test), unpack 'H*', slurp($ENV{TAMIS_SEEN}));
    }, sub {
        my ($test, $how, $seconds, $cpu, $seen) = @_;
        return if $how ne '';
        @$test{qw(seconds cpu)} = ($seconds, $cpu);
        my @seen = split //, pack 'H*', $seen;
        $test->{reaches} = { map { $_ => 1 } grep { ord $seen[ $number{$_} ] } keys %number };
    });
    tree_restore($_, shift @before) for @trees;
    my $reach = 0;
    for my $m (@_) { $reach += grep { !$_->{reaches} || $_->{reaches}{ $m->{place} } } @tests }
    printf "a mutant is reached by %.1f of %d tests\n", $reach / @_, scalar @tests if @_;
}

# The unchanged tree must pass these. With marks most of them have done so already. A test
# that fails is a failure of this run, which goes on without it.
sub clean {
    my $n = @_;
    pool([grep { !defined $_->{seconds} } @_], sub { my ($looks, @result) = looked(@_); return @result }, sub {
        my ($test, $how, @took) = @_;
        @$test{qw(seconds cpu)} = @took;
        return if $how eq '';
        push @bad, "the unchanged tree: $test->{name} $how";
        @tests = grep { $_ != $test } @tests;
        $n--;
    });
    print map { "$_\n" } @bad;
    printf "the unchanged tree passes %d tests, after %d s\n", $n, seconds() - $began;
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
        my @some = splice @from, 0, $n - @stand + $o{jobs};
        pool(\@some, \&compile, sub { my ($m, @r) = @_; $result{ $m->{name} } = \@r });
        for my $m (grep { $result{ $_->{name} } } @some) {
            last if @stand == $n;
            my ($not, $print) = @{ $result{ $m->{name} } };
            $not ||= 'duplicate' if $seen{$print}++;
            $not ? $count{$not}++ : push @stand, $m;
        }
    }
    print "passed over: $count{$_} $_\n" for sort keys %count;
    return @stand;
}

# ---- all of them ----

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
        @all = map { { %{ $made->{$_} }, hint => $record->{$_}, named => 1 } } grep { $made->{$_} } @killed;
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

my %programs = map { $_ => 1 } map { @{ $_->{programs} } } @tests;
system('mkdir', '-p', $work);
open my $lock, '>', "$work/lock" or die "$work/lock: $!\n";
flock $lock, 2 | 4 or die "another run is at work in $work\n";
$SIG{INT} = $SIG{TERM} = sub { $stop = 1 };
END { my $status = $?; tree_leave($_) for @trees; $? = $status }
for my $i (1 .. $o{jobs}) {
    print STDERR "building copy $i\n";
    push @trees, tree_new($source, "$work/tree$i", $o{jobs}, join(' ', sort keys %programs), $trees[0]);
}
if ($o{draw}) {
    system('rm', '-rf', "$work/kept");
    @all = standing($o{draw}, @all);
    printf "%d stand, after %d s\n", scalar @all, seconds() - $began;
    see(@all) if !$stop;
}
die "interrupted\n" if $stop;
my %named = map { $_->{hint} => 1 } grep { $_->{named} } @all;
clean(grep { !%named || $named{ $_->{name} } } @tests);

my $keep;
if ($o{record}) {
    open $keep, '>>', "$here/drawn.txt" or die "drawn.txt: $!\n";
    $keep->autoflush(1);
    print $keep "# run.pl --draw $o{draw} --seed $o{seed} --record\n" if -z $keep;
    @all = grep { !exists $record->{ $_->{name} } } @all;
}
my ($n, $killed, @again) = (0, 0);
sub tried {
    my ($m, $how, $by, $took, $left) = @_;
    my $ok = $by ne '' && $how ne 'does not link';
    return push @again, $m if !$ok && $o{drawn} && delete $m->{named};
    $n++;
    $killed++ if $ok;
    noted($m, $by) if $ok && !$m->{named};
    my $what = $ok ? "killed by $by" : 'survives' . ($left ? " what ran in $o{cpu} s" : '');
    print $keep "$m->{name}: $what\n" if $keep;
    $what = ($ok ? $what : uc $what) . ($how && ", which $how");
    print "$m->{name}: $what ($took CPU s)\n" if !$ok || $m->{rule} || $ENV{V};
    push @bad, "survives: $m->{name}" unless $ok || $o{draw};
}
pool(\@all, \&try, \&tried);
if (@again && !$stop) {
    printf "%d pass the test that killed them: now all tests, after %d s\n", scalar @again, seconds() - $began;
    $o{cpu} = 1e9;
    see(@again);
    clean(@tests);
    pool(\@again, \&try, \&tried);
}

# ---- what came of it ----

push @bad, 'interrupted' if $stop;
push @bad, 'nothing was tried' if !$n && !$o{record};
my %by = map { $_->{name} => $kills{ $_->{name} } } grep { $kills{ $_->{name} } } @tests;
for (sort { $by{$b} <=> $by{$a} || $a cmp $b } keys %by) { printf "%5d by %s\n", $by{$_}, $_ }
printf "%d tried: %d killed (%.1f%%), %d survive; %d s\n", $n, $killed, $n ? 100 * $killed / $n : 0,
    $n - $killed, seconds() - $began;
print "FAILED: $_\n" for @bad;
exit(@bad ? 1 : 0);
