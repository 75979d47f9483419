use http::HeaderMap;
use standardwebhooks::Webhook;

fn main() {
    let file = std::env::args().nth(1).unwrap();
    for line in std::fs::read_to_string(file).unwrap().split('\n') {
        let fields: Vec<&str> = line.split('\t').collect();
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", fields[1].parse().unwrap());
        headers.insert("webhook-timestamp", fields[2].parse().unwrap());
        headers.insert("webhook-signature", fields[3].parse().unwrap());
        let webhook = Webhook::new(fields[0]).unwrap();
        println!("{}", webhook.verify(fields[4].as_bytes(), &headers).is_ok());
    }
}
