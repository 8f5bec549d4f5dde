//! One holder at a time: by the clocks of the holders, and by the store's.

use syncguard::TIME_TOLERANCE;

use super::super::locks::{Lock, by_key};
use super::super::{Answer, Moment, Operation};
use super::{Invariant, Limits, Violation, millis};

pub(super) fn by_their_clocks(locks: &[Lock<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    for of_key in by_key(locks) {
        let spans = of_key.iter().flat_map(|lock| {
            lock.relied_on().into_iter().map(move |(from, until)| Span { from, until, lock })
        });
        violations.extend(overlaps(spans.collect()).map(|(one, other)| {
            let what = format!(
                "two relied on {:?}, from {} to {} and from {} to {} us",
                one.lock.key, one.from, one.until, other.from, other.until
            );
            Violation::new(Invariant::HoldersTakeTurns, what, proof(one.lock, other.lock))
        }));
    }
    violations
}

pub(super) fn by_the_stores_clock(locks: &[Lock<'_>], limits: &Limits) -> Vec<Violation> {
    let mut violations = Vec::new();
    for of_key in by_key(locks) {
        let lives = of_key.iter().filter_map(|lock| life(lock, limits));
        violations.extend(overlaps(lives.collect()).map(|(one, other)| {
            let what = format!(
                "two locks of {:?} lived, from {} to at least {} and from {} ms on",
                one.lock.key, one.from, one.until, other.from
            );
            Violation::new(Invariant::LocksTakeTurns, what, proof(one.lock, other.lock))
        }));
    }
    violations
}

#[derive(Clone, Copy)]
struct Span<'a> {
    from: u64,
    until: u64,
    lock: &'a Lock<'a>,
}

/// Each span that begins before an earlier one of another lock has ended, with that one.
fn overlaps<'a>(mut spans: Vec<Span<'a>>) -> impl Iterator<Item = (Span<'a>, Span<'a>)> {
    spans.sort_by_key(|span| (span.from, span.until));
    let mut last: Option<Span<'a>> = None;
    spans.into_iter().filter_map(move |span| {
        let before = last;
        if before.is_none_or(|before| before.until < span.until) {
            last = Some(span);
        }
        before
            .filter(|before| span.from < before.until && span.lock.id != before.lock.id)
            .map(|before| (before, span))
    })
}

fn proof<'a>(one: &Lock<'a>, other: &Lock<'a>) -> Vec<&'a Operation> {
    let all = |lock: &Lock<'a>| {
        let parts = [&lock.acquires, &lock.extends, &lock.sightings, &lock.releases];
        let last = |part: &Vec<&'a Operation>| part[part.len().saturating_sub(3)..].to_vec();
        parts.into_iter().flat_map(last).collect::<Vec<_>>()
    };
    [all(one), all(other)].concat()
}

/// What the store has said of a lock, and when it was asked.
struct Word {
    called: Moment,
    answered: Moment,
    acquired_at: Option<u64>,
    expires_at: u64,
}

/// From when until when a lock certainly lived, in the store's milliseconds. `None` if the store has
/// said nothing of it.
fn life<'a>(lock: &'a Lock<'a>, limits: &Limits) -> Option<Span<'a>> {
    let words = words(lock);
    let from = words.iter().find_map(|word| word.acquired_at)?;
    // What the store said last; where two answers crossed, the earlier end.
    let last = words.iter().max_by_key(|word| word.called)?;
    let crossed = words.iter().filter(|word| word.answered >= last.called);
    let mut expires_at = crossed.map(|word| word.expires_at).min()?;
    let slack = millis(limits.clocks);
    for extend in lock.prolonged().filter(|extend| extend.may_be_last(lock)) {
        // It may have been carried out, at any time since, and made the life shorter.
        let end = extend.operation.called.unix + extend.ttl;
        expires_at = expires_at.min(end.saturating_sub(slack));
    }
    let mut until = expires_at + millis(TIME_TOLERANCE);
    if lock.grant().is_none() {
        // Nobody was told that it is his, so the backend gives it back by itself, which no holder
        // records: it is certain as long as it was seen.
        until = until.min(last.called.unix.saturating_sub(slack));
    }
    for release in &lock.releases {
        if !matches!(release.answer(), Some(Answer::NotHeld)) {
            until = until.min(release.called.unix.saturating_sub(slack));
        }
    }
    Some(Span { from, until, lock })
}

fn words(lock: &Lock<'_>) -> Vec<Word> {
    let grant = lock.grant().map(|grant| Word {
        called: grant.operation.called,
        answered: grant.answered,
        acquired_at: Some(grant.expires_at.saturating_sub(grant.ttl)),
        expires_at: grant.expires_at,
    });
    let others = lock.extends.iter().chain(&lock.sightings).filter_map(|operation| {
        let called = operation.called;
        match operation.answered {
            Some((answered, Answer::Extended { expires_at } | Answer::Mismatch { expires_at })) => {
                Some(Word { called, answered, acquired_at: None, expires_at })
            }
            Some((answered, Answer::Found { acquired_at, expires_at, .. })) => {
                Some(Word { called, answered, acquired_at: Some(acquired_at), expires_at })
            }
            _ => None,
        }
    });
    others.chain(grant).collect()
}
