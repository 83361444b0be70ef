# make check-mutants: do the tests notice when the code is wrong?
#
# Planted bugs (planted.pl; one rule of SPEC.md section 14 or more each) and mutants that mutate.pl makes are put, one at a time, into a copy of the tree.
# The tests of that copy run until one fails; nothing is taken as caught that was not
# seen to fail here and now. The unchanged copy must pass the same tests first.
#
# A mutant whose object code is that of the original, or of another mutant, is no
# mutant, and is not counted. One that survives every test must stand in survivors.md
# with the reason why it is harmless.
use strict;
use warnings;
use Cwd ();

my ($jobs, $only, $list, $again, $quick, $trust, $percent) = (1, '', 0, 0, 0, 0, 40);
my @kinds = ('planted', 'generated');
while (defined(my $a = shift @ARGV)) {
    if    ($a eq '--jobs')      { $jobs = shift @ARGV }
    elsif ($a eq '--only')      { $only = shift @ARGV }
    elsif ($a eq '--percent')   { $percent = shift @ARGV }
    elsif ($a eq '--list')      { $list = 1 }
    elsif ($a eq '--again')     { $again = 1 } # only what survived last time
    elsif ($a eq '--trust')     { $trust = 1 } # the unchanged tree, if it passed last time
    elsif ($a eq '--quick')     { $quick = 1 } # without the slow tests
    elsif ($a eq '--planted')   { @kinds = ('planted') }
    elsif ($a eq '--generated') { @kinds = ('generated') }
    else { die "unknown option $a\n" }
}
my $source = Cwd::getcwd();
my $here = "$source/tests/mutants";
my $work = "$source/build/mutants";
do "$here/mutate.pl" or die $@ || $!;
do "$here/tree.pl" or die $@ || $!;
do "$here/planted.pl" or die $@ || $!;
$| = 1;

my @FILES = qw(format/commit.c format/stage.c format/integrity.c format/geometry.c format/identity.c
    format/record.c lib/writer/writer.c lib/writer/create.c lib/writer/stage.c
    lib/writer/add.c lib/writer/commit.c lib/writer/durable.c lib/writer/floors.c lib/writer/grow.c
    lib/writer/seal.c lib/writer/recover.c lib/page/map.c lib/page/check.c lib/io/reserve.c
    lib/builder/partition.c lib/builder/fill.c lib/builder/check.c lib/page/guard.c lib/page/watch.c
    lib/filter/scrub.c lib/filter/probe.c lib/filter/bloom.c lib/kernel/loops.h
    lib/kernel/few.h lib/kernel/cells.h lib/kernel/row.h lib/kernel/grid.h lib/derive/sources.c
    lib/derive/setops.c lib/derive/fold.c lib/derive/pages.c lib/derive/derive.c
    lib/derive/compare.c lib/store/edit/derive.c lib/store/snapshot/planes.c
    lib/store/snapshot/probe_one.c lib/store/snapshot/probe_few.c
    lib/store/snapshot/probe_many.c lib/store/snapshot/probe_keys.c
    lib/filter/view.c lib/writer/settle.c lib/store/catalog/origin.c
    lib/store/base/copies.c lib/store/repair/quarantine.c);
# Tests that are no unit tests: program, arguments. One whose directory is not there
# is left out.
my @PROGRAMS = (
    ['tests/crash/explore', '--states 20000 --seed 1'],
    ['tests/crash/explore', '--workload failed-sync --states 8000 --seed 1'],
    ['tests/faults/faults', ''],
    ['tests/rot/rot', ''],
);

# A survivor must survive the long forms; TAMIS_TEST_LONG=0 tries only what `make unit` runs.
$ENV{TAMIS_TEST_LONG} //= 1;

my $SLOW = qr{error_rates|property|builder|process|threads|sealed_damage|store|crash|faults|rot};

# ---- what there is to try ----

# Stable under changes elsewhere: a mutant's number is a hash of its name (FNV-1a).
sub number_of {
    my $h = 0x811c9dc5;
    $h = (($h ^ ord) * 0x01000193) & 0xffffffff for split //, $_[0];
    return ($h >> 8) % 100;
}

sub planted {
    my $functions = planted_functions($source);
    my @out;
    for my $entry (planted_entries("$here/planted")) {
        my ($name, $head) = @$entry{ 'name', 'head' };
        for (qw(Rule Bug Lost)) { die "$name needs the line $_:\n" unless $head->{$_} }
        my $changes = planted_apply($source, $entry, $functions);
        push @out, { kind => 'planted', name => $name, changes => $changes, files => [sort keys %$changes],
            rule => $head->{Rule}, hint => $head->{'Caught-by'} || '', bug => $head->{Bug} };
    }
    return @out;
}

sub generated {
    my ($percent) = @_;
    my @out;
    for my $f (@FILES) {
        my $text = slurp("$source/$f");
        push @out, map { { kind => 'generated', name => "$f:$_->{name}", file => $f, mutant => $_,
            files => [$f] } } grep { number_of("$f:$_->{name}") < $percent } @{ mutants_of($text) };
    }
    return @out;
}

# survivors.md: "- NAME", then the reason, indented.
sub listed_survivors {
    my (%reason, $name);
    for (split /\n/, -f "$here/survivors.md" ? slurp("$here/survivors.md") : '') {
        if (/^- (\S.*)$/) { $name = $1; $reason{$name} = '' }
        elsif (defined $name && /^  \s*(\S.*)$/) { $reason{$name} .= "$1 " }
        else { $name = undef }
    }
    for (sort keys %reason) { die "survivors.md gives no reason: $_\n" if $reason{$_} eq '' }
    return \%reason;
}

sub test_list {
    my @tests = map { m{/(test_\w+)\.c$}; { name => $1, program => "build/tests/$1", arguments => '' } }
        sort glob "$source/tests/unit/*/test_*.c";
    # Programs and plugins that a test runs or loads; they are linked with the library, too.
    my %also = (
        test_golden => [map { "build/tests/golden/make_$_" } qw(golden ribbons lists)],
        test_extensions => ['build/tests/golden/make_extensions'],
        test_store_copies => [map { "build/tests/plugin_$_.so" } 'a', 'b']);
    for (@tests) { $_->{also} = $also{ $_->{name} } }
    for (@PROGRAMS) {
        my ($program, $arguments) = @$_;
        my ($name) = $program =~ m{^tests/(.*)$};
        $name .= " $1" if $arguments =~ /--workload (\S+)/;
        push @tests, { name => $name, program => "build/$program", arguments => $arguments }
            if -f "$source/" . ($program =~ s{/[^/]*$}{/rules.mk}r);
    }
    # The command is tested by bats.
    push @tests, { name => "cli/$_", program => 'build/tamis', arguments => '',
        run => "bats tests/cli/$_" } for qw(input/empty.bats);
    return @tests;
}

# ---- trying one ----

my (@tests, %kills, %fingerprints);

# The test that kills most mutants of this file in the least time comes first.
sub in_order {
    my ($m) = @_;
    my $file = $m->{files}[0];
    my %score = map {
        my $kills = 1 + 3 * ($kills{"$file $_->{name}"} || 0) + ($kills{ $_->{name} } || 0);
        ($_->{name} => ($_->{name} eq ($m->{hint} || '') ? 1e9 : $kills / (0.1 + $_->{seconds})))
    } @tests;
    return sort { $score{ $b->{name} } <=> $score{ $a->{name} } || $a->{name} cmp $b->{name} } @tests;
}

# The new text of each file that a mutant changes.
sub changes_of {
    my ($t, $m) = @_;
    return $m->{changes} // { $m->{file} => mutated(slurp("$t->{root}/$m->{file}"), $m->{mutant}) };
}

# In a child process. Prints "RESULT<TAB>TEST<TAB>SECONDS<TAB>FINGERPRINT".
sub try {
    my ($t, $m, $file) = @_;
    my ($result, $by, $took, $print) = ('survives', '', 0, '');
    my $before = tree_change($t, changes_of($t, $m));
    if ($t->{failed}) { $result = 'does not compile' }
    elsif ($m->{kind} eq 'generated') {
        $print = $t->{fingerprint};
        $result = $t->{same} ? 'equivalent' : $fingerprints{$print} ? 'duplicate' : $result;
    }
    if ($result eq 'survives') {
        for my $test (in_order($m)) {
            my ($failure, $seconds) = tree_test($t, $test, int(20 * $test->{seconds} + 10));
            $took += $seconds;
            next if $failure eq '';
            ($result, $by) = ($failure, $test->{name});
            last;
        }
    }
    tree_restore($t, $before);
    spit($file, join "\t", $result, $by, sprintf('%.1f', $took), $print);
}

# ---- all of them ----

my (%count, @bad, @survivors, %listed, @trees, $stop);

sub report {
    my ($m, $result, $by, $took, $print) = @_;
    my $kind = $m->{kind};
    if ($kind eq 'generated' && $result =~ /^(?:does not compile|equivalent|duplicate)$/) {
        $count{$result}++;
        return;
    }
    if ($kind eq 'generated' && $fingerprints{$print}++) { $count{duplicate}++; return }
    $count{$kind}++;
    if ($by ne '') {
        $count{"$kind caught"}++;
        $kills{$by}++;
        $kills{"$m->{files}[0] $by"}++;
        print "$m->{name}: caught by $by, which $result ($took s)\n"
            if $kind eq 'planted' || $ENV{V};
        print "listed as a survivor, and caught by $by, which $result: $m->{name}\n"
            if $listed{ $m->{name} };
        return;
    }
    if ($kind eq 'planted') {
        print "$m->{name}: NOT CAUGHT, $result\n";
        push @bad, "$m->{name} ($result)";
        return;
    }
    push @survivors, $m->{name};
    if ($listed{ $m->{name} }) { $count{'listed survivors'}++; return }
    print "survives, and is not listed: $m->{name}\n";
    push @bad, $m->{name};
}

sub run_all {
    my ($trees, @todo) = @_;
    my (%busy, $done);
    my @free = @$trees;
    my $total = @todo;
    while (@todo || %busy) {
        last if $stop && !%busy;
        if (@todo && @free && !$stop) {
            my ($t, $m) = (shift @free, shift @todo);
            my $pid = fork;
            die "fork: $!\n" unless defined $pid;
            if ($pid == 0) { try($t, $m, "$t->{root}.result"); POSIX::_exit(0) }
            $busy{$pid} = [$t, $m];
            next;
        }
        my $pid = wait;
        next if $pid < 0; # a signal
        my ($t, $m) = @{ delete $busy{$pid} };
        die "trying $m->{name} ended with status $?\n" if $? != 0;
        next if $stop; # its tests had the signal, too
        report($m, split /\t/, slurp("$t->{root}.result"), -1);
        push @free, $t;
        print STDERR "... $done of $total\n" if ++$done % 50 == 0;
    }
}

my @planted = grep { $kinds[0] eq 'planted' } planted();
my @generated = grep { $kinds[-1] eq 'generated' } generated($percent);
my @all = grep { $_->{name} =~ /$only/ } @planted, @generated;
if ($again) {
    my %last = map { $_ => 1 } split /\n/, slurp("$work/survivors.txt");
    @all = grep { $last{ $_->{name} } } @all;
}
if ($list) {
    print $_->{kind} eq 'planted' ? "$_->{name}: $_->{rule}: $_->{bug}\n" : "$_->{name}\n" for @all;
    exit 0;
}
%listed = %{ listed_survivors() };
my %made = map { $_->{name} => 1 } generated(100);
if (@generated) { $made{$_} or print "listed as a survivor, but not made any more: $_\n" for sort keys %listed }

@tests = test_list();
my %programs = map { $_ => 1 } map { ($_->{program}, @{ $_->{also} || [] }) } @tests;
my $what = join ' ', sort keys %programs;
system('mkdir', '-p', $work);
open my $lock, '>', "$work/lock" or die "$work/lock: $!\n";
flock $lock, 2 | 4 or die "another run is at work in $work\n";
$SIG{INT} = $SIG{TERM} = sub { $stop = 1 };
END { my $status = $?; tree_leave($_) for @trees; $? = $status }
for my $i (1 .. $jobs) {
    print STDERR "building copy $i\n";
    push @trees, tree_new($source, "$work/tree$i", $jobs, $what);
}
@tests = grep { $_->{name} !~ /$SLOW/ } @tests if $quick;
my %last = map { split /\t/ } split /\n/, $trust ? slurp("$work/seconds.txt") : '';
for my $test (@tests) {
    next if defined($test->{seconds} = $last{ $test->{name} });
    (my $failure, $test->{seconds}) = tree_test($trees[0], $test, 600);
    die slurp($trees[0]{log}) . "the unchanged tree: $test->{name} $failure\n" if $failure ne '';
}
printf "the unchanged tree passes %d test programs\n", scalar @tests;
spit("$work/seconds.txt", join '', map { "$_->{name}\t$_->{seconds}\n" } @tests);
my $began = seconds();
run_all(\@trees, @all);
spit("$work/survivors.txt", join '', map { "$_\n" } @survivors) unless $only || !@generated;

# ---- what came of it ----

push @bad, 'interrupted' if $stop;
push @bad, 'the unchanged tree was not tested' if $trust;
my $whole = $only eq '' && !$again && !$quick && !$stop;
printf "%d planted bugs: %d caught\n", $count{planted} || 0, $count{'planted caught'} || 0 if @planted;
if ($whole && @planted) {
    my %rules = map { $_ => 1 } map { $_->{rule} =~ /(R\d+)/g } @planted;
    for (sort keys %{ { map { $_ => 1 } slurp("$source/SPEC.md") =~ /\b(R\d+)\b/g } }) {
        push @bad, "no planted bug for rule $_" unless $rules{$_};
    }
}
if (@generated) {
    my ($n, $caught) = ($count{generated} || 0, $count{'generated caught'} || 0);
    printf "%d mutants: %d killed (%.1f%%), %d survive, %d of these listed as harmless\n", $n, $caught,
        $n ? 100 * $caught / $n : 0, $n - $caught, $count{'listed survivors'} || 0;
    printf "not counted: %d that did not compile, %d with the object code of the original, %d with that of another\n",
        map { $count{$_} || 0 } 'does not compile', 'equivalent', 'duplicate';
    push @bad, "fewer than 300 mutants" if $whole && $n < 300;
    push @bad, "fewer than 90% killed" if $whole && $caught < 0.9 * $n;
}
for (sort { $kills{$b} <=> $kills{$a} } grep { !/ / } keys %kills) { printf "%5d by %s\n", $kills{$_}, $_ }
printf "%d s\n", seconds() - $began;
print "FAILED: $_\n" for @bad;
exit(@bad ? 1 : 0);
