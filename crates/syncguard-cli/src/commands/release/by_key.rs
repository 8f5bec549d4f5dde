//! Takes the lock of one key away from its holder.

use syncguard::Key;
use syncguard::diagnostics::get_by_key;

use super::confirmation::is_confirmed;
use super::options::Options;
use super::take_away::{Outcome, take_away};
use crate::exit::{Failure, Status};
use crate::holder;
use crate::output::{Output, print, print_json};
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
    let info = get_by_key(&backend, lock_key).await?;
    let outcome = match &info {
        None => Outcome::WasFree,
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
    let printed = match &outcome {
        outcome if options.json => print_json(&outcome.as_json(key, info.as_ref())),
        Outcome::Held(_) => Ok(()),
        outcome => print(outcome.as_text(info.as_ref())),
    };
    printed.map_err(Failure::output)?;
    match outcome {
        Outcome::Held(failure) => Err(failure),
        Outcome::WasFree | Outcome::Released(_) => Ok(Status::SUCCESS),
    }
}
