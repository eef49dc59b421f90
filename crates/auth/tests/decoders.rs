//! Everything that reads credentials, on seeds that are damaged in every place: the fuzz target's check.

#[path = "../../../fuzz/bodies/credentials.rs"]
mod credentials;

const SEEDS: [&str; 5] = [
    "eyJhbGciOiJFUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJodHRwczovL2kiLCJhdWQiOlsiYSJdfQ.AAAAAAAAAAAAAAAAAAAA",
    "abcdef.0123456789abcdef",
    "t1,jane,7,\"devs,ops\"\nt2,joe,8\r\n\"t\"\"3\",\"a\nb\",9,x,y\n",
    r#"{"iss":"i","sub":"s","aud":["a"],"exp":1.5e9,"nbf":1,"kubernetes.io":{"namespace":"n","pod":{"name":"p"},"warnafter":1}}"#,
    "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous:\n  enabled: true\n  conditions:\n  - path: /livez\n",
];

#[test]
fn damaged_credentials_are_refused_without_a_fuss() {
    for seed in SEEDS {
        credentials::check(seed.as_bytes());
        for at in 0..seed.len() {
            let mut damaged = seed.as_bytes().to_vec();
            damaged.truncate(at);
            credentials::check(&damaged);
            for byte in [0, b'"', b'.', b',', b'\n', b'{', b'=', b'9', 0xff] {
                let mut damaged = seed.as_bytes().to_vec();
                damaged[at] = byte;
                credentials::check(&damaged);
                damaged.insert(at, byte);
                credentials::check(&damaged);
            }
        }
    }
}
