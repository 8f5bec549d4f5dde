//! A newer fence and then an older one, in every form in which a driver or a script can bind it: the older one must not pass,
//! and the stored fence must not fall.

use std::fmt;

use anyhow::{Result, ensure};

/// A form of a fence as a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Integer,
    /// The library's own form, such as `SYNCGUARD_FENCE`.
    Digits15,
    /// A text without zeros, whose order is not that of the numbers.
    Digits,
    Float,
    /// The 15 digits as bytes.
    Blob,
    Null,
    /// A text that is no fence.
    Word,
}

pub(crate) const FORMS: [Bound; 7] = [
    Bound::Integer,
    Bound::Digits15,
    Bound::Digits,
    Bound::Float,
    Bound::Blob,
    Bound::Null,
    Bound::Word,
];

/// An older fence and a newer one: with another order as texts, beyond the small integers, beyond what `FLOAT` tells apart, and
/// the last.
const PAIRS: [(u64, u64); 5] = [
    (9, 10),
    (200, 300),
    (16_777_216, 16_777_217),
    (3_000_000_000, 4_000_000_000),
    (899_999_999_999_999, 900_000_000_000_000),
];

/// The purpose of the column and the statement: a column of 64-bit numbers has to take every fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Wide,
    Other,
}

/// Two writes, one after the other, beginning without a fence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) writes: [(Bound, u64); 2],
}

/// The answer of the store to a write: the answer, if there was one, and the fence that is stored afterwards.
pub(crate) type Said = (Option<u64>, u64);

/// Every pair of fences in every pair of forms.
pub(crate) fn cases() -> impl Iterator<Item = Case> {
    PAIRS.into_iter().flat_map(|(older, newer)| {
        FORMS.into_iter().flat_map(move |first| {
            FORMS.map(move |second| Case { writes: [(first, newer), (second, older)] })
        })
    })
}

impl Case {
    /// Checks the answers to the two writes. `passes` of an answer is that it is the writer's own fence.
    pub(crate) fn judge(
        &self,
        place: &dyn fmt::Display,
        column: Column,
        said: [Said; 2],
    ) -> Result<()> {
        let [(first, newer), (_, older)] = self.writes;
        let [(to_newer, between), (to_older, after)] = said;
        let has_passed = to_newer == Some(newer);
        ensure!(after >= between, "{place}, {self:?}: the fence fell: {said:?}");
        ensure!(!has_passed || between == newer, "{place}, {self:?}: not stored: {said:?}");
        ensure!(
            !(has_passed && to_older == Some(older)),
            "{place}, {self:?}: a late writer passes: {said:?}"
        );
        let must_pass = column == Column::Wide && first == Bound::Integer;
        ensure!(
            !must_pass || has_passed,
            "{place}, {self:?}: the right writer is refused: {said:?}"
        );
        Ok(())
    }
}

/// The statement of a page or a file that starts with these words, up to its end or to a quote.
pub(crate) fn printed(page: &str, start: &str) -> String {
    let from = page.find(start).unwrap_or_else(|| panic!("no {start:?} on the page"));
    page[from..].split([';', '"']).next().unwrap_or_default().to_owned()
}
