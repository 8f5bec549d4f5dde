//! The PostgreSQL backend over the program's own pool, and a fenced write.

use syncguard_postgres::deadpool_postgres::{Manager, Pool, Runtime};
use syncguard_postgres::tokio_postgres::{Config, NoTls};
use syncguard_postgres::{PostgresBackend, PostgresOptions, try_acquire};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, key) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let url = url.split('?').next().unwrap_or_default();
    let manager = Manager::new(url.parse::<Config>()?, NoTls);
    let pool = Pool::builder(manager).max_size(4).runtime(Runtime::Tokio1).build()?;
    let backend = PostgresBackend::from_pool(pool.clone(), PostgresOptions::new())?;
    backend.setup_schema().await?;
    let guard =
        try_acquire(&backend, key.as_str()).await?.acquired().ok_or("somebody else has it")?;
    println!("locked under fence {}", guard.fence());

    let mut client = pool.get().await?;
    let transaction = client.transaction().await?;
    backend.check_fence(&transaction, guard.lock_id(), guard.fence()).await?;
    transaction.execute("SELECT 1", &[]).await?;
    transaction.commit().await?;
    println!("still ours: {}", guard.release().await?.is_released());
    Ok(())
}
