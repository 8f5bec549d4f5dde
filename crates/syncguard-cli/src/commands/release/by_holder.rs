//! Takes all locks of one holder away.

use syncguard::contract::Holder;

use super::confirmation::is_confirmed;
use super::options::Options;
use super::take_away::{Outcome, take_away};
use crate::commands::listing::{self, Listing};
use crate::commands::lock_key::{key_for_terminal, key_of};
use crate::exit::{Failure, Status};
use crate::output::{Output, print_as};
use crate::store::Store;

pub(super) async fn release(
    label: &str,
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    // In the form in which stores keep labels.
    let wanted = Holder::new(label)?;
    if wanted.label().is_empty() {
        return Err(Failure::usage(
            "an empty label is no holder: `release KEY --force` releases one lock",
        ));
    }
    let backend = store.connect().await?;
    let Listing { mut locks, corrupt } = listing::read(&backend, "").await?;
    locks
        .retain(|info| info.holder.as_ref().is_some_and(|holder| holder.label() == wanted.label()));
    if let Some(message) = listing::corrupt_message(&corrupt) {
        output.error(message);
    }
    if locks.is_empty() {
        output.note("no lock with this label is held");
        return Ok(if corrupt.is_empty() { Status::NONE_FOUND } else { Status::INTERNAL });
    }
    // A part of the question, and no note: notes show no keys.
    let shown = listing::as_table(&locks, &["HOLDER", "RECIPE"]);
    let question = format!("the locks of this holder:\n{shown}\nTake them away ({})?", locks.len());
    if !is_confirmed(options, question).await? {
        output.note("nothing was changed");
        return Ok(Status::SUCCESS);
    }
    let mut worst = if corrupt.is_empty() { Status::SUCCESS } else { Status::INTERNAL };
    let mut unprinted = None;
    for info in &locks {
        // If one lock cannot be taken away, the others still are.
        let outcome = take_away(&backend, info).await.unwrap_or_else(Outcome::Held);
        if let Outcome::Held(failure) = &outcome {
            if options.json {
                output.error(failure);
            }
            if [Status::SUCCESS, Status::CONFLICT].contains(&worst) {
                worst = failure.status();
            }
        }
        let printed = print_as(
            options.json,
            || outcome.as_json(&key_of(info), Some(info)),
            || format!("{}: {}", key_for_terminal(info), outcome.as_text(Some(info))),
        );
        // If the reader of the output has gone, the other locks still are taken away.
        unprinted = unprinted.or(printed.err());
    }
    match unprinted {
        Some(failure) if worst == Status::SUCCESS => Err(failure),
        _ => Ok(worst),
    }
}
