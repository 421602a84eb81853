# The demo's origin: one nginx process of its own on loopback, with nothing of the system's configuration.

server=0 url="" told=0

# $media served at $url. The port is a free one: nginx cannot ask the kernel for one, so it tries.
start_server() {
    local nginx port
    nginx=$(PATH=$PATH:/usr/sbin:/sbin command -v nginx) || fail "there is no nginx"
    : > "$work/access.log"
    for _ in {1..20}; do
        port=$((20000 + RANDOM % 12000))
        url=http://127.0.0.1:$port/
        server_configuration "$port" > "$work/nginx.conf"
        "$nginx" -p "$work" -c "$work/nginx.conf" < /dev/null > "$work/nginx.log" 2>&1 &
        server=$!
        for _ in {1..50}; do
            # Somebody else's server could answer on that port: only ours has this page.
            if curl -s --max-time 2 "${url}.demo/${work##*/}" | grep -q '^Active connections'; then return; fi
            kill -0 "$server" 2> /dev/null || break
            sleep 0.1
        done
        stop_server
    done
    fail "nginx does not start" "$work/nginx.log"
}

stop_server() {
    if ((server > 0)); then
        kill "$server" 2> /dev/null || true
        wait "$server" 2> /dev/null || true
    fi
    server=0
}

# Bytes of bodies that were sent, by nginx's own log.
sent() { awk '{ n += $1 } END { print n + 0 }' "$work/access.log"; }

# A request stands in the log when it has ended: waits until only this question is being answered.
settle() {
    ((server > 0)) || return 0
    local writing
    for _ in {1..100}; do
        writing=$(curl -s --max-time 2 "${url}.demo/${work##*/}" | sed -n 's/.*Writing: \([0-9]*\).*/\1/p')
        if [[ $writing == 1 ]]; then return; fi
        sleep 0.1
    done
}

server_configuration() { # PORT
    cat << END
# One process: it ends with the script's child, and runs as whoever runs the demo.
daemon off;
master_process off;
pid $work/nginx.pid;
error_log $work/nginx.log;
events { worker_connections 256; }
http {
    client_body_temp_path $work/tmp; proxy_temp_path $work/tmp; fastcgi_temp_path $work/tmp;
    uwsgi_temp_path $work/tmp; scgi_temp_path $work/tmp;
    types { video/mp4 mp4; video/x-matroska mkv; audio/mpeg mp3; audio/flac flac; text/html html; }
    log_format sent '\$body_bytes_sent \$status "\$request" "\$http_range"';
    access_log $work/access.log sent;
    sendfile on;
    server {
        listen 127.0.0.1:$1;
        root $media;
        autoindex on;
        location = /.demo/${work##*/} { stub_status; access_log off; }
    }
}
END
}
