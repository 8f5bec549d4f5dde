//! Takes the lock of one key away from its holder.

use syncguard::Key;
use syncguard::diagnostics::get_by_key;

use super::super::lock_key::key_for_terminal;
use super::super::parts;
use super::confirmation::is_confirmed;
use super::options::Options;
use super::take_away::{Outcome, take_away};
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::{Output, print_as};
use crate::store::Store;
use crate::time::{human, since};

pub(super) async fn release(
    key: &str,
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    let lock_key = Key::new(key)?;
    let backend = store.connect().await?;
    let info = get_by_key(&backend, lock_key.clone()).await?;
    let outcome = match &info {
        None => {
            let parts = parts::held(&backend, &lock_key).await?;
            if let (Some(summary), [(part, info), ..]) = (parts::summary(&parts), &*parts) {
                output.note(format!(
                    "{}; each is released by its own key, as {} is by {}",
                    summary.replace('\n', ", and "),
                    part.name(),
                    key_for_terminal(info)
                ));
            }
            Outcome::WasFree
        }
        Some(info) => {
            let (name, age) = (holder::name(info), human(since(info.acquired_at)));
            let question = format!("{name} has held the lock for {age}. Take it away?");
            if !is_confirmed(options, question).await? {
                output.note("nothing was changed");
                return Ok(Status::SUCCESS);
            }
            take_away(&backend, info).await?
        }
    };
    let info = info.as_ref();
    if options.json || !matches!(outcome, Outcome::Held(_)) {
        print_as(options.json, || outcome.as_json(key, info), || outcome.as_text(info))?;
    }
    match outcome {
        Outcome::Held(failure) => Err(failure),
        Outcome::WasFree | Outcome::Released(_) => Ok(Status::SUCCESS),
    }
}
