//! What a store of objects has to do: give exactly the bytes of a hash, or nothing.
#![expect(clippy::expect_used, reason = "a suite fails by panicking")]

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;
use runtime::ports::objects::{Objects, ObjectsError};

/// SHA-256 of nothing and of `abc` (FIPS 180-2).
const OF_NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// The whole suite.
///
/// # Panics
/// Where a promise is broken.
pub async fn objects(make: impl AsyncFn() -> Arc<dyn Objects>) {
    an_object_is_named_by_its_hash(&*make().await).await;
    what_was_never_stored_is_not_there(&*make().await).await;
    many_writers_of_the_same_and_of_different_bytes_agree(&*make().await).await;
}

async fn an_object_is_named_by_its_hash(objects: &dyn Objects) {
    for (bytes, name) in [(Bytes::new(), OF_NOTHING), (Bytes::from_static(b"abc"), OF_ABC)] {
        for _ in 0..2 {
            assert_eq!(objects.put(bytes.clone()).await.expect("stored, also a second time"), name);
            assert_eq!(objects.get(name).await.expect("read"), Some(bytes.clone()));
        }
    }
    let large: Bytes = (0..3_000_000_u32).map(|i| u8::try_from(i % 251).unwrap_or_default()).collect();
    let name = objects.put(large.clone()).await.expect("stored");
    assert!(objects.get(&name).await.expect("read") == Some(large), "a large object comes back byte for byte");
}

async fn what_was_never_stored_is_not_there(objects: &dyn Objects) {
    assert_eq!(objects.get(OF_ABC).await.expect("read"), None);
    let upper = OF_ABC.to_uppercase();
    for bad in
        ["", "..", "../../../etc/passwd", &OF_ABC[1..], &format!("{OF_ABC}0"), &upper, &format!("{}/a", &OF_ABC[2..])]
    {
        assert!(matches!(objects.get(bad).await, Err(ObjectsError::BadHash(_))), "`{bad}` is no hash");
    }
}

async fn many_writers_of_the_same_and_of_different_bytes_agree(objects: &dyn Objects) {
    let contents: Vec<_> = (0..32_u8).map(|i| Bytes::from(vec![i / 4; 1_000])).collect();
    let names = join_all(contents.iter().map(|bytes| objects.put(bytes.clone()))).await;
    for (bytes, name) in contents.into_iter().zip(names) {
        let name = name.expect("stored");
        assert_eq!(objects.get(&name).await.expect("read"), Some(bytes), "each writer finds what it wrote");
    }
}
