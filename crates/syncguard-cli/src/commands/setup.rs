//! `syncguard setup`: creates the tables of a store.

use clap::Args;

use crate::exit::{Failure, Status};
use crate::output::print;
use crate::store::Store;

/// Creates the tables of the store, if it has any
///
/// On `PostgreSQL`, as a user who may create tables, once for each database and again after an
/// upgrade. It changes nothing if the tables are complete. Other stores need nothing.
#[derive(Args)]
pub(crate) struct Options {}

pub(crate) async fn run(store: Store) -> Result<Status, Failure> {
    let says = match store.with_schema_setup() {
        Some(store) => {
            let _ = store.connect().await?;
            "the tables are complete"
        }
        None => "this store needs no setup",
    };
    print(says)?;
    Ok(Status::SUCCESS)
}
