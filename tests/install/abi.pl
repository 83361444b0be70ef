#!/usr/bin/perl
# Turns what abidw says of a library into the record of its ABI: a paragraph for each function,
# structure, enumeration and type name that callers see, wrapped and sorted by name.
#
#   tamis_version TAMIS_0: const char * (void)
#   struct tamis_key 32: 0 uint64_t hash; 8 const void *key; ...     offsets and size in bytes
use strict;
use warnings;
use Text::Wrap qw(wrap);
$Text::Wrap::columns = 90;
$Text::Wrap::huge = 'overflow';

my (%type, @open, @functions, $soname);

# Words between which no line is broken.
sub whole { return $_[0] =~ tr/ /\0/r; }

sub name_of {
    my ($id) = @_;
    my $t = $type{$id} or die "abi: there is no type $id\n";
    my $kind = $t->{kind};
    return ($kind eq 'enum-decl' ? 'enum ' : 'struct ') . $t->{name} if $kind =~ /^(enum|class)-decl$/;
    return $t->{name} if $t->{name};
    return 'const ' . name_of($t->{'type-id'}) if $kind eq 'qualified-type-def';
    return name_of($t->{'type-id'}) . "[$t->{parts}[0]{length}]" if $kind eq 'array-type-def';
    return signature($t) if $kind eq 'function-type';
    return name_of($t->{'type-id'}) =~ s/(?<!\*)$/ /r . '*' if $kind eq 'pointer-type-def';
    die "abi: nothing is known of $kind\n";
}

sub signature {
    my ($t) = @_;
    my @of = grep { $_->{kind} ne 'return' } @{$t->{parts}};
    my ($return) = grep { $_->{kind} eq 'return' } @{$t->{parts}};
    my @words = map { $_->{'is-variadic'} ? '...' : name_of($_->{'type-id'}) } @of;
    return whole(name_of($return->{'type-id'})) . ' (' . (join(', ', map { whole($_) } @words) || 'void') . ')';
}

# Elements that others are made of are parts of the one that is open.
while (<>) {
    if (m{^\s*</}) { pop @open; next; }
    my ($kind, $rest) = m{^\s*<([a-z-]+)(.*)>$} or die "abi: what is this: $_";
    my %e = (kind => $kind, parts => [], $rest =~ /([a-z-]+)='([^']*)'/g);
    $soname = $e{soname} if $kind eq 'abi-corpus';
    push @{$open[-1]{parts}}, \%e if @open;
    push @open, \%e unless $rest =~ m{/$};
    push @functions, \%e if $kind eq 'function-decl';
    next if !$e{id} || $kind eq 'subrange' || $e{'is-declaration-only'} && $type{$e{id}};
    $type{$e{id}} = \%e;
}

my %line = map {
    my ($version) = $_->{'elf-symbol-id'} =~ /\@\@(.*)/;
    ("$_->{name} $version" => signature($_));
} @functions;
for my $t (values %type) {
    my @parts = @{$t->{parts}};
    if ($t->{kind} eq 'enum-decl') {
        my ($of) = grep { $_->{kind} eq 'underlying-type' } @parts;
        my $bits = $type{$of->{'type-id'}}{'size-in-bits'};
        $line{"enum $t->{name} " . $bits / 8} =
            join ', ', map { whole("$_->{name} $_->{value}") } grep { $_->{kind} eq 'enumerator' } @parts;
    } elsif ($t->{kind} eq 'class-decl' && !$t->{'is-declaration-only'}) {
        $line{"struct $t->{name} " . $t->{'size-in-bits'} / 8} = join '; ', map {
            my $of = $_->{parts}[0];
            whole($_->{'layout-offset-in-bits'} / 8 . ' ' . name_of($of->{'type-id'}) . " $of->{name}");
        } grep { $_->{kind} eq 'data-member' } @parts;
    } elsif ($t->{kind} eq 'typedef-decl') {
        $line{"typedef $t->{name}"} = name_of($t->{'type-id'});
    } elsif ($t->{kind} eq 'type-decl' && $t->{'size-in-bits'}) {
        $line{"type $t->{name}"} = $t->{'size-in-bits'} / 8 . ' bytes';
    }
}
print "$soname\n", map { wrap('', '    ', "$_: $line{$_}") =~ tr/\0/ /r . "\n" } sort keys %line;
