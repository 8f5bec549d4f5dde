//! `syncguard release`: gives back a lock of `acquire`, or takes locks away from their holders.

mod by_holder;
mod by_key;
mod confirmation;
mod options;
mod own;
mod take_away;

pub(crate) use self::options::Options;

use self::options::Which;
use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::store::Store;

pub(crate) async fn run(
    options: &Options,
    store: &Store,
    output: Output,
) -> Result<Status, Failure> {
    match &options.which {
        Which { from: Some(from), .. } => own::release(from, options.json, store).await,
        Which { holder: Some(label), .. } => {
            by_holder::release(label, options, store, output).await
        }
        Which { key: Some(key), .. } => by_key::release(key, options, store, output).await,
        Which { .. } => Err(Failure::usage("name a key, --holder or --from")),
    }
}
