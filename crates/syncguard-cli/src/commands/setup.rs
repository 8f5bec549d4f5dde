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
pub(crate) struct Options {
    /// Also adds the columns that tables of `TypeScript` or of an earlier version lack; each open
    /// connection of a `TypeScript` program then fails once per statement
    #[arg(long)]
    upgrade: bool,
}

pub(crate) async fn run(options: &Options, store: Store) -> Result<Status, Failure> {
    let says = match store.with_schema_setup(options.upgrade) {
        Some(store) => {
            let _ = store.connect().await?;
            "the tables are complete"
        }
        None => "this store needs no setup",
    };
    print(says)?;
    Ok(Status::SUCCESS)
}
